//! Times as pages carry them: for programs in UTC, and for people until the script says them in their own zone.

use maud::{Markup, html};

/// `2026-11-16T09:30:00Z` of milliseconds since 1970.
pub fn iso(ms: u64) -> String {
    let (year, month, day) = civil(ms / 86_400_000);
    let seconds = ms / 1_000 % 86_400;
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", seconds / 3_600, seconds / 60 % 60, seconds % 60)
}

/// A moment. The script turns it into how long ago it was.
pub(crate) fn when(ms: u64) -> Markup {
    let iso = iso(ms);
    let shown = format!("{} {}", &iso[..10], &iso[11..16]);
    html! { time datetime=(iso) title=(iso) { (shown) } }
}

/// A moment as another system wrote it, which may be anything.
pub(crate) fn written(text: &str) -> Markup {
    let looks = text.len() >= 16 && text.is_ascii() && text.as_bytes()[4] == b'-' && text.as_bytes()[10] == b'T';
    match looks {
        true => html! { time datetime=(text) title=(text) { (text[..10]) " " (text[11..16]) } },
        false => html! { span { (crate::clip(text, 40)) } },
    }
}

/// Year, month and day of a count of days since 1970 in the Gregorian calendar.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days.min(2_932_896) + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let (day, month) =
        (day_of_year - (153 * shifted + 2) / 5 + 1, if shifted < 10 { shifted + 3 } else { shifted - 9 });
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_as_programs_read_them() {
        assert_eq!(iso(0), "1970-01-01T00:00:00Z");
        assert_eq!(iso(1_794_821_400_007), "2026-11-16T09:30:00Z");
        assert_eq!(iso(951_782_400_000), "2000-02-29T00:00:00Z");
        assert_eq!(iso(u64::MAX).len(), "9999-12-31T00:00:00Z".len());
    }

    #[test]
    fn what_is_no_moment_is_text() {
        assert!(written("2026-11-16T09:30:00.000Z").into_string().contains("2026-11-16 09:30<"));
        assert_eq!(written("<b>soon</b>").into_string(), "<span>&lt;b&gt;soon&lt;/b&gt;</span>");
        assert_eq!(written("내일 아침에 시작합니다").into_string(), "<span>내일 아침에 시작합니다</span>");
    }
}
