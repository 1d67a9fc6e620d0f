//! Names of which there may be hundreds of thousands, in sixteen bytes each: two are the same only if their names are.

/// A name, or several that belong together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 16]);

impl Digest {
    #[must_use]
    pub fn of(name: &str) -> Self {
        Self::cut(blake3::hash(name.as_bytes()))
    }

    /// Of names in their order; where each ends belongs to it.
    #[must_use]
    pub fn of_all(names: &[&str]) -> Self {
        let mut hash = blake3::Hasher::new();
        for name in names {
            hash.update(&(name.len() as u64).to_le_bytes());
            hash.update(name.as_bytes());
        }
        Self::cut(hash.finalize())
    }

    fn cut(hash: blake3::Hash) -> Self {
        Self(*hash.as_bytes().first_chunk().expect("a hash has 32 bytes"))
    }
}

impl std::fmt::Debug for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_read_alike_when_they_are_joined_are_told_apart() {
        assert_eq!(Digest::of("run"), Digest::of("run"));
        assert_ne!(Digest::of("run"), Digest::of("ruN"));
        assert_ne!(Digest::of_all(&["ab", "c"]), Digest::of_all(&["a", "bc"]));
        assert_eq!(format!("{:?}", Digest::of("")).len(), 32);
    }
}
