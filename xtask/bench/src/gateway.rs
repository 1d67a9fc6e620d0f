//! A gateway inside the process, with a state directory of its own.

use std::path::Path;

use anyhow::{Result, anyhow};
use chela::app::{self, App, Options};
use chela::clock::Clock;
use chela::config::Starter;
use chela::layout::StateDir;
use chela::port::PerPort;

pub struct Gateway {
    pub app: App,
    _temp: tempfile::TempDir,
}

/// A state directory whose gateway listens on free ports, its configuration changed by `edit`.
pub fn directory(edit: impl FnOnce(&mut serde_json::Value)) -> Result<(tempfile::TempDir, StateDir)> {
    let temp = tempfile::tempdir()?;
    let dir = StateDir::new(temp.path().join("state"));
    app::init(&dir, &Starter::default())?;
    let mut config: serde_json::Value = serde_json::from_slice(&std::fs::read(dir.config())?)?;
    for listener in ["gateway", "monitor", "hub"] {
        config[listener]["listen"] = "127.0.0.1:0".into();
    }
    edit(&mut config);
    std::fs::write(dir.config(), config.to_string())?;
    Ok((temp, dir))
}

pub async fn start_in(dir: &StateDir, binary: &Path) -> Result<App> {
    let options = Options {
        dir: dir.clone(),
        clock: Clock::system(),
        listen: PerPort::default(),
        compiler: binary.to_owned(),
        watched: None,
        segment_bytes: chela::bus::SEGMENT_BYTES,
    };
    App::start(options).await.map_err(|error| anyhow!("{error}"))
}

impl Gateway {
    pub async fn start(binary: &Path, edit: impl FnOnce(&mut serde_json::Value)) -> Result<Self> {
        let (temp, dir) = directory(edit)?;
        let app = start_in(&dir, binary).await?;
        app.plugins().loaded().await;
        Ok(Self { app, _temp: temp })
    }

    pub async fn stop(self) -> Result<()> {
        self.app.stop().await.map_err(|error| anyhow!("{error}"))
    }
}
