//! Lines of the gateway about itself.

use super::{Role, Writer, agent, belongs};
use crate::plan::session::{Session, Style, SystemBeat};
use crate::record::{Id, Record};

const SYSTEM: &str = "system";

impl Writer {
    pub(super) fn system(&mut self, line: &mut String, session: &Session, beat: SystemBeat, ts: u64) {
        let id = self.fresh(ts);
        let (kind, by) = match beat {
            SystemBeat::MilestoneSyncFailed => ("milestone.sync_failed", agent(session.owner).id),
            SystemBeat::PluginLoaded => ("plugin.loaded", SYSTEM),
            SystemBeat::ConfigApplied => ("config.applied", SYSTEM),
            SystemBeat::PolicyDecided => ("policy.decided", SYSTEM),
        };
        let mut record = Record::open(line, Some(id), kind, by, ts);
        if session.style == Style::Housekeeping {
            record.word("eventRole", Role::System.as_str());
        } else {
            belongs(&mut record, session, Role::System);
        }
        match beat {
            SystemBeat::MilestoneSyncFailed => {
                record.id("milestoneItem", Id::Short("item_", self.chance.word()));
                record.word("error", "the milestone's item is gone");
            }
            SystemBeat::PluginLoaded => {
                record.word("slot", "classifier").word("plugin", "rules").word("version", "0.1.0");
            }
            SystemBeat::ConfigApplied => {
                record.json("changed", "[\"agents\"]");
            }
            SystemBeat::PolicyDecided => {
                record.word("slot", "classifier").word("plugin", "rules").word("decision", "classified");
                record.number("tookUs", u64::from(self.chance.between(90, 900)));
            }
        }
        record.close();
    }
}
