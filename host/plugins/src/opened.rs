//! A component on the bench that is called many times: staged once, with as many instances as its caller wants to hold.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use super::adapters::trial;
use super::dispatch;
use super::error::Error;
use super::generation::{Generation, Identity};
use super::instance::{Instance, Surroundings, Unmade};
use super::record::Recorded;
use super::workbench::{Workbench, around, friendly, wanted};
use crate::config::PluginLimits;
use crate::policy::World;

pub struct Opened {
    generation: Arc<Generation>,
    pub worlds: Vec<World>,
    /// Of its file.
    pub bytes: usize,
}

/// One configured instance.
pub struct Running {
    instance: Instance,
    /// What taking it up took: start, configuration.
    pub made_in: Duration,
}

impl Workbench {
    /// Stages a component with a configuration, which it may refuse.
    pub fn open(&self, source: &str, config: Map<String, Value>, limits: PluginLimits) -> Result<Opened, Error> {
        let staged = self.stage.prepare(&wanted(source, None, config, limits)?, 1)?;
        let (worlds, bytes) = (staged.inspection.worlds, staged.inspection.bytes);
        Ok(Opened { generation: staged.generation, worlds, bytes })
    }
}

impl Opened {
    pub fn identity(&self) -> &Identity {
        &self.generation.identity
    }

    /// A new instance that nobody has called.
    pub fn start(&self) -> Result<Running, Error> {
        let since = Instant::now();
        let name = || self.generation.identity.name.clone();
        let instance = self.generation.make(&mut Vec::new()).map_err(|unmade| match unmade {
            Unmade::Config { path, message } => Error::Config { name: name(), path, message },
            Unmade::Failed(failure) => Error::Configure { name: name(), failure },
        })?;
        Ok(Running { instance, made_in: since.elapsed() })
    }
}

impl Running {
    /// One call, as `plugin try` makes it: one conversation or event may stand for a list of one.
    pub fn call(&mut self, export: &str, input: &Value) -> Result<Value, dispatch::Error> {
        let (input, single) = friendly(export, input.clone());
        let answer = dispatch::call(&mut self.instance, export, &input, &around(&input))?;
        Ok(match answer {
            Value::Array(mut list) if single => list.pop().unwrap_or(Value::Null),
            answer => answer,
        })
    }

    /// One call of an adapter, of which a part comes before a restart: `self` takes the earlier calls, `next` goes on from its state.
    pub fn call_restored(&mut self, next: &mut Self, input: &Value) -> Result<Value, dispatch::Error> {
        let told = trial::told(input)?;
        Ok(trial::call_restored(&mut self.instance, &mut next.instance, &told, &around(input))?)
    }

    /// What was recorded, asked again in its own time and with its own chance.
    pub fn replay(&mut self, recorded: &Recorded) -> Result<Value, dispatch::Error> {
        let seed = u64::from_str_radix(&recorded.digest, 16).unwrap_or(0);
        let around = Surroundings { now_ms: recorded.ts.0, seed, deployment: "compare".into(), locale: "en" };
        dispatch::call(&mut self.instance, &recorded.export, &recorded.input, &around)
    }

    /// How long each of `count` calls takes.
    pub fn time(&mut self, export: &str, input: &Value, count: usize) -> Result<Vec<Duration>, dispatch::Error> {
        let (input, _) = friendly(export, input.clone());
        dispatch::time(&mut self.instance, export, &input, &around(&input), count)
    }

    /// A call was cut off: it answers nothing any more.
    pub fn is_whole(&self) -> bool {
        self.instance.is_whole()
    }

    pub fn memory(&self) -> usize {
        self.instance.memory()
    }

    /// What it has logged since it was last asked for it.
    pub fn take_lines(&mut self) -> Vec<String> {
        self.instance.take_lines().into_iter().map(|line| format!("{}: {}", line.level, line.text)).collect()
    }
}

/// Whether an input is one that a function takes; says where it is not.
pub fn check_input(export: &str, input: &Value) -> Result<(), dispatch::Error> {
    let (input, _) = friendly(export, input.clone());
    dispatch::check(export, &input)
}
