//! The style sheet and the script, in the binary, under names that change with what is in them: a browser may keep them for ever.

/// A file that pages name.
#[derive(Debug)]
pub struct Asset {
    pub kind: &'static str,
    pub text: &'static str,
    hash: u64,
    stem: &'static str,
    ending: &'static str,
}

impl Asset {
    /// What it is called in a page.
    pub fn path(&self) -> String {
        format!("/assets/{}.{:016x}.{}", self.stem, self.hash, self.ending)
    }
}

const STYLE_TEXT: &str = include_str!("../assets/style.css");
const SCRIPT_TEXT: &str = include_str!("../assets/script.js");

pub static STYLE: Asset = Asset {
    kind: "text/css; charset=utf-8",
    text: STYLE_TEXT,
    hash: fnv(STYLE_TEXT.as_bytes()),
    stem: "style",
    ending: "css",
};

pub static SCRIPT: Asset = Asset {
    kind: "text/javascript; charset=utf-8",
    text: SCRIPT_TEXT,
    hash: fnv(SCRIPT_TEXT.as_bytes()),
    stem: "script",
    ending: "js",
};

/// The asset of a name such as `style.0123456789abcdef.css`.
pub fn asset(name: &str) -> Option<&'static Asset> {
    [&STYLE, &SCRIPT].into_iter().find(|asset| asset.path().strip_prefix("/assets/") == Some(name))
}

/// Tells one text from another.
pub fn mark_of(text: &str) -> String {
    format!("{:016x}", fnv(text.as_bytes()))
}

/// FNV-1a. It tells one version from another; nobody gains anything by two that collide.
const fn fnv(bytes: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut at = 0;
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u64).wrapping_mul(0x0100_0000_01b3);
        at += 1;
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assets_are_found_by_their_own_names_alone_and_are_small() {
        for file in [&STYLE, &SCRIPT] {
            let path = file.path();
            let name = path.strip_prefix("/assets/").expect("below assets");
            assert_eq!(asset(name).map(|found| found.stem), Some(file.stem));
        }
        assert!(asset("style.0000000000000000.css").is_none() && asset("../style.css").is_none());
        assert!(SCRIPT.text.len() < 40 * 1024, "{} bytes of script", SCRIPT.text.len());
    }
}
