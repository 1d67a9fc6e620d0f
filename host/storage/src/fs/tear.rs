//! What reaches the platter without being asked to: write-back, failed flushes, and what a power cut leaves.
//! Keeps true: a block is old or new, never mixed; blocks and names get there in any order; a file may grow before its data arrives, and
//! then holds zeros or what the disk held before.

use std::path::Path;

use super::disk::{Change, Disk, Inode};

impl Inode {
    /// Writes those changed blocks back that `chosen` takes, except the ones the kernel has given up.
    pub(super) fn write_blocks(&mut self, block: usize, mut chosen: impl FnMut(usize) -> bool) {
        for at in 0..self.current.len().div_ceil(block) {
            let range = at * block..self.current.len().min((at + 1) * block);
            let same = self.durable.get(range.clone()).is_some_and(|old| old == &self.current[range.clone()]);
            if same || self.lost.contains(&at) || !chosen(at) {
                continue;
            }
            if self.durable.len() < range.end {
                self.durable.resize(range.end, 0);
            }
            self.durable[range.clone()].copy_from_slice(&self.current[range]);
        }
    }
}

impl Disk {
    /// The machine starts again. After a power cut only the platter is left; after a killed process the page cache is as it was.
    pub fn restart(&mut self, power_cut: bool) {
        if power_cut {
            self.cut_power();
        }
        self.boot += 1;
        self.crashed = false;
        self.deferred.clear();
        self.faults.crash_at = None;
    }

    /// The kernel writes some of one file back, or the oldest change of names.
    pub(super) fn write_back(&mut self) {
        if !self.pending.is_empty() && self.random.bool() {
            self.pending.remove(0).apply(&mut self.durable_names);
        }
        let nth = self.random.usize(0..self.inodes.len());
        let (block, random) = (self.faults.block, &mut self.random);
        if let Some(inode) = self.inodes.values_mut().nth(nth) {
            inode.write_blocks(block, |_| random.bool());
        }
    }

    /// A flush failed: some of it is written, and of the rest the kernel says no more (or it even forgets what was written).
    pub(super) fn fail_to_flush(&mut self, inode: u64) {
        let (block, random) = (self.faults.block, &mut self.random);
        let Some(inode) = self.inodes.get_mut(&inode) else { return };
        if inode.directory.is_some() {
            // Names go through the journal of the file system, which keeps what it could not write.
            let written = random.usize(0..=self.pending.len());
            self.pending.drain(..written).for_each(|change| change.apply(&mut self.durable_names));
            return;
        }
        inode.write_blocks(block, |_| random.bool());
        let forgets = random.u8(0..3) == 0;
        for at in 0..inode.current.len().div_ceil(block) {
            let range = at * block..inode.current.len().min((at + 1) * block);
            if inode.durable.get(range.clone()).is_some_and(|old| old == &inode.current[range.clone()]) {
                continue;
            }
            inode.lost.insert(at);
            if forgets {
                for place in range {
                    inode.current[place] = inode.durable.get(place).copied().unwrap_or(0);
                }
            }
        }
    }

    fn cut_power(&mut self) {
        let mut names = std::mem::take(&mut self.durable_names);
        let pending = std::mem::take(&mut self.pending);
        // Either an ordered journal of names, or one that promises nothing.
        if self.random.bool() {
            let kept = self.random.usize(0..=pending.len());
            pending[..kept].iter().for_each(|change: &Change| change.apply(&mut names));
        } else {
            pending.iter().filter(|_| self.random.bool()).for_each(|change| change.apply(&mut names));
        }
        let there = names.clone();
        names.retain(|path, _| path.ancestors().skip(1).all(|folder: &Path| there.contains_key(folder)));
        let kept: std::collections::BTreeSet<u64> = names.values().copied().collect();
        self.inodes.retain(|id, _| kept.contains(id));
        // Kernel and disk differ in how much of what is dirty they had written.
        let survival = [0, 20, 50, 80, 100][self.random.usize(0..5)];
        let (stale, block) = (self.random.bool() && self.faults.stale_blocks, self.faults.block);
        for inode in self.inodes.values_mut() {
            let (durable, current) = (std::mem::take(&mut inode.durable), std::mem::take(&mut inode.current));
            let (least, most) = (durable.len().min(current.len()), durable.len().max(current.len()));
            let size = match self.random.u8(0..3) {
                0 => durable.len(),
                1 => current.len(),
                _ => self.random.usize(least..=most),
            };
            let mut platter = durable.clone();
            platter.resize(size, 0);
            for at in 0..size.div_ceil(block) {
                let range = at * block..size.min((at + 1) * block);
                // What shows through an unwritten block: something of the same kind, since the disk held older files of ours.
                let other = self.random.usize(0..current.len().div_ceil(block).max(1)) * block;
                let survives = !inode.lost.contains(&at) && self.random.u32(0..100) < survival;
                for place in range.clone() {
                    platter[place] = match (survives, current.get(place), durable.get(place)) {
                        (true, Some(new), _) => *new,
                        (_, _, Some(old)) => *old,
                        // The block was given to the file and never written.
                        _ if stale => current.get(other + place - range.start).copied().unwrap_or(0),
                        _ => 0,
                    };
                }
            }
            inode.lost.clear();
            inode.current.clone_from(&platter);
            inode.durable = platter;
        }
        self.durable_names.clone_from(&names);
        self.names = names;
    }
}
