//! Lines of the form `- **Label:** value`, in a text with other lines between them.

/// Label and value of a line.
pub(crate) fn parts(line: &str) -> Option<(&str, &str)> {
    let (label, value) = line.trim().strip_prefix("- **")?.split_once(":**")?;
    Some((label.trim(), value.trim()))
}

/// The value of the first line with this label; an empty one is none.
pub(crate) fn get<'a>(text: &'a str, label: &str) -> Option<&'a str> {
    let mut found = text.lines().filter_map(parts);
    let (_, value) = found.find(|(name, _)| name.eq_ignore_ascii_case(label))?;
    (!value.is_empty()).then_some(value)
}

/// The text with another value for a label: in its line if there is one, else in a new one after the last label.
pub(crate) fn set(text: &str, label: &str, value: Option<&str>) -> String {
    let is_it = |line: &str| parts(line).is_some_and(|(name, _)| name.eq_ignore_ascii_case(label));
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let at = lines.iter().position(|line| is_it(line));
    match (at, value) {
        (Some(at), Some(value)) => {
            let written = lines[at].split_once(":**").map_or("", |(before, _)| before).to_owned();
            lines[at] = format!("{written}:** {value}");
        }
        // Every one of them: the next would be read in its place.
        (Some(_), None) => lines.retain(|line| !is_it(line)),
        (None, Some(value)) => {
            let after = lines.iter().rposition(|line| parts(line).is_some()).map_or(lines.len(), |last| last + 1);
            lines.insert(after, format!("- **{label}:** {value}"));
        }
        (None, None) => {}
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_set_where_it_stands_and_other_lines_stay() {
        let text = "- **Status:** pending\nfree\n- **Reviewer:** 소라";
        assert_eq!(get(text, "status"), Some("pending"));
        assert_eq!(set(text, "Status", Some("blocked")), "- **Status:** blocked\nfree\n- **Reviewer:** 소라");
        assert_eq!(set(text, "Due", Some("2026-12-01")), format!("{text}\n- **Due:** 2026-12-01"));
        assert_eq!(set(text, "Reviewer", None), "- **Status:** pending\nfree");
        assert_eq!(set("", "Status", Some("pending")), "- **Status:** pending");
    }
}
