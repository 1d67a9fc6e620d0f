//! The file system, as the rest of the crate names it.
//! Keeps true: with the feature `simulation` the same code runs on a disk that crashes, tears and fails by a seed; without it this is
//! `std::fs` and nothing else. Never: adds behaviour of its own.

#[cfg(not(feature = "simulation"))]
pub(crate) use std::fs::{DirBuilder, File, OpenOptions, exists, read_dir, remove_file, rename};

#[cfg(feature = "simulation")]
pub(crate) use {
    folder::{DirBuilder, exists, read_dir, remove_file, rename},
    simulated::{File, OpenOptions},
};

#[cfg(feature = "simulation")]
pub mod disk;
#[cfg(feature = "simulation")]
pub mod faults;
#[cfg(feature = "simulation")]
pub mod folder;
#[cfg(feature = "simulation")]
pub mod simulated;
#[cfg(feature = "simulation")]
mod tear;
