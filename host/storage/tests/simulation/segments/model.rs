//! What the event log must hold: the acknowledged lines, each at its place, then perhaps the first few of those of which nobody knows.

use std::collections::BTreeMap;
use std::path::PathBuf;

use chela_storage::Segment;

/// Where a line is: the number of its segment, and its offset there. Readers keep these.
pub type Place = (u32, usize);

#[derive(Clone, Debug, Default)]
pub struct Model {
    acknowledged: Vec<(Vec<u8>, Place)>,
    /// Lines that failed in a way that only opening again can tell about.
    pub unsure: Vec<Vec<u8>>,
    /// What was cut off, piece by piece.
    pub kept: Vec<Vec<u8>>,
}

impl Model {
    /// A log shows the acknowledged lines and perhaps the first few of those unsure, and nothing else. From then on it may not lose those
    /// either. Gives how many were there.
    pub fn settle(&mut self, actual: Vec<(Vec<u8>, Place)>) -> Result<usize, String> {
        for (nth, expected) in self.acknowledged.iter().enumerate() {
            match actual.get(nth) {
                Some(found) if found == expected => {}
                Some((line, place)) if *line == expected.0 => {
                    return Err(format!("{} was at {:?} and is at {place:?}", text(line), expected.1));
                }
                found => {
                    let found = found.map_or("nothing".into(), |(line, _)| text(line));
                    return Err(format!("{} was acknowledged, and there is {found}", text(&expected.0)));
                }
            }
        }
        let unsure = std::mem::take(&mut self.unsure);
        let there = actual.len() - self.acknowledged.len();
        for (nth, (line, _)) in actual.iter().skip(self.acknowledged.len()).enumerate() {
            if unsure.get(nth) != Some(line) {
                return Err(format!("{} should not be there", text(line)));
            }
        }
        self.acknowledged = actual;
        Ok(there)
    }

    /// Every piece that was cut off is in the file for such bytes, in the order of the cuts.
    pub fn check_kept(&self, aside: &[u8]) -> Result<(), String> {
        let mut rest = aside;
        for piece in &self.kept {
            let at = rest.windows(piece.len()).position(|window| window == piece);
            let at = at.ok_or_else(|| format!("{} was cut off and is gone", text(piece)))?;
            rest = &rest[at + piece.len()..];
        }
        Ok(())
    }
}

/// All lines of a log in their order. Segments must be numbered without a gap, and only the last one may be open.
pub fn lines(segments: &[Segment], files: &BTreeMap<PathBuf, Vec<u8>>) -> Result<Vec<(Vec<u8>, Place)>, String> {
    let mut lines = Vec::new();
    for (segment, number) in segments.iter().zip(1..) {
        if segment.number != number || segment.closed == (segments.len() == number as usize) {
            return Err(format!("the segments are {segments:?}"));
        }
        let bytes = files.get(&segment.path).ok_or("a segment is listed and not there")?;
        let mut offset = 0;
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            lines.push((line.to_vec(), (number, offset)));
            offset += line.len();
        }
    }
    Ok(lines)
}

pub fn text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]);
    format!("{text:?} ({} bytes)", bytes.len())
}
