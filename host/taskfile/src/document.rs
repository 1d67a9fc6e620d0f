//! A file as it stands: sections of raw text. Putting the pieces together again gives the same bytes.

use std::fmt;

/// A task file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Document {
    /// What stands before the first section; the title is there.
    pub(crate) head: String,
    pub(crate) sections: Vec<Section>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Section {
    /// The whole line with its end.
    pub(crate) heading: String,
    pub(crate) body: String,
}

/// Sections that mean something here, in the order in which we write them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Known {
    Metadata,
    Description,
    Context,
    Steps,
    Progress,
    Blocked,
    Outcome,
    LastActivity,
}

impl Known {
    const ALL: [Self; 8] = [
        Self::Metadata,
        Self::Description,
        Self::Context,
        Self::Steps,
        Self::Progress,
        Self::Blocked,
        Self::Outcome,
        Self::LastActivity,
    ];

    fn title(self) -> &'static str {
        match self {
            Self::Metadata => "Metadata",
            Self::Description => "Description",
            Self::Context => "Context",
            Self::Steps => "Steps",
            Self::Progress => "Progress",
            Self::Blocked => "Blocked",
            Self::Outcome => "Outcome",
            Self::LastActivity => "Last Activity",
        }
    }
}

impl Section {
    pub(crate) fn title(&self) -> &str {
        self.heading.trim_start_matches('#').trim()
    }

    pub(crate) fn known(&self) -> Option<Known> {
        Known::ALL.into_iter().find(|known| known.title().eq_ignore_ascii_case(self.title()))
    }

    /// The text between the blank lines around it.
    pub(crate) fn core(&self) -> &str {
        let (from, to) = self.core_range();
        &self.body[from..to]
    }

    fn core_range(&self) -> (usize, usize) {
        let mut from = 0;
        for line in self.body.split_inclusive('\n') {
            if !line.trim().is_empty() {
                break;
            }
            from += line.len();
        }
        (from, self.body.trim_end().len().max(from))
    }

    /// Puts other text between the blank lines that are there.
    pub(crate) fn set_core(&mut self, text: &str) {
        let (from, to) = self.core_range();
        let (lead, rest) = match &self.body[from..to] {
            "" if self.body.is_empty() => ("\n", "\n"),
            // A blank line before and after, as there was before there was text.
            "" => ("\n", "\n\n"),
            _ if !self.body[to..].contains('\n') => (&self.body[..from], "\n"),
            _ => (&self.body[..from], &self.body[to..]),
        };
        self.body = format!("{lead}{text}{rest}");
    }
}

impl Document {
    pub fn parse(text: &str) -> Self {
        let mut document = Self::default();
        for line in text.split_inclusive('\n') {
            match document.sections.last_mut() {
                _ if line.starts_with("## ") => {
                    document.sections.push(Section { heading: line.to_owned(), body: String::new() });
                }
                Some(section) => section.body.push_str(line),
                None => document.head.push_str(line),
            }
        }
        document
    }

    /// The id in the title line, and the number of that line.
    pub(crate) fn title(&self) -> Option<(usize, &str)> {
        let mut lines = self.head.lines().enumerate();
        lines.find_map(|(at, line)| Some((at + 1, line.strip_prefix("# Task:")?.trim())))
    }

    /// The first section of this meaning: later ones of the same name are kept as they are.
    pub(crate) fn section(&self, known: Known) -> Option<&Section> {
        self.sections.iter().find(|section| section.known() == Some(known))
    }

    /// The line in the file on which a section's heading stands.
    pub(crate) fn heading_line(&self, known: Known) -> usize {
        let before = self.sections.iter().take_while(|section| section.known() != Some(known));
        let lines = |section: &Section| 1 + section.body.matches('\n').count();
        self.head.matches('\n').count() + 1 + before.map(lines).sum::<usize>()
    }

    pub(crate) fn section_mut(&mut self, known: Known) -> &mut Section {
        let at = self.sections.iter().position(|section| section.known() == Some(known));
        let at = at.unwrap_or_else(|| {
            let after = |section: &Section| section.known().is_some_and(|other| other > known);
            let at = self.sections.iter().position(after).unwrap_or(self.sections.len());
            self.insert(at, Section { heading: format!("## {}\n", known.title()), body: String::new() });
            at
        });
        let section = &mut self.sections[at];
        end_line(&mut section.heading);
        section
    }

    /// Puts a section in, with a blank line before it and after it.
    pub(crate) fn insert(&mut self, at: usize, mut section: Section) {
        let before = match at.checked_sub(1) {
            Some(before) => {
                let before = &mut self.sections[before];
                end_line(&mut before.heading);
                Some(&mut before.body)
            }
            None => Some(&mut self.head).filter(|head| !head.is_empty()),
        };
        if let Some(before) = before.filter(|before| !ends_blank(before)) {
            if !before.is_empty() {
                end_line(before);
            }
            before.push('\n');
        }
        end_line(&mut section.heading);
        if at < self.sections.len() && !ends_blank(&section.body) {
            end_line(&mut section.body);
            section.body.push('\n');
        }
        self.sections.insert(at, section);
    }

    pub(crate) fn remove(&mut self, known: Known) {
        let mut found = (0..self.sections.len()).filter(|at| self.sections[*at].known() == Some(known));
        match (found.next(), found.next()) {
            (Some(at), None) => drop(self.sections.remove(at)),
            // The next of this name would be read in its place.
            (Some(at), Some(_)) => "\n".clone_into(&mut self.sections[at].body),
            (None, _) => {}
        }
    }
}

/// Another line may follow.
pub(crate) fn end_line(text: &mut String) {
    if !text.ends_with('\n') {
        text.push('\n');
    }
}

fn ends_blank(text: &str) -> bool {
    text == "\n" || text.ends_with("\n\n") || text.ends_with("\n\r\n")
}

impl fmt::Display for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.head)?;
        self.sections.iter().try_for_each(|section| write!(f, "{}{}", section.heading, section.body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_gives_back_every_byte() {
        for text in
            ["", "\n", "x", "# Task: a\n## b", "\r\n## B\r\nc\r\n## \n", "## Steps\n- [ ] (s1) a\n\n\n## Steps\nb"]
        {
            assert_eq!(Document::parse(text).to_string(), text);
        }
    }

    #[test]
    fn a_new_section_stands_where_it_belongs_with_blank_lines_around_it() {
        let mut document =
            Document::parse("# Task: a\n\n## Metadata\n- **Status:** pending\n## Notes\nmine\n## Last Activity\nnow");
        document.section_mut(Known::Steps).set_core("- [ ] (s1) b");
        let expected = "# Task: a\n\n## Metadata\n- **Status:** pending\n## Notes\nmine\n\n## Steps\n\n- [ ] (s1) b\n\n## Last Activity\nnow";
        assert_eq!(document.to_string(), expected);
    }
}
