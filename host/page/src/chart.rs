//! Counts over days as bars, drawn by the server.

use maud::{Markup, html};

use crate::views::Day;
use crate::words::Words;

const WIDTH: u64 = 560;
const HEIGHT: u64 = 96;

/// A bar a day, with a table of the same numbers for those who do not see it.
pub(crate) fn bars(days: &[Day], words: &Words) -> Markup {
    let most = days.iter().map(|day| day.events).max().unwrap_or(0).max(1);
    let step = WIDTH / (days.len().max(1) as u64);
    html! {
        svg.chart viewBox=(format!("0 0 {WIDTH} {}", HEIGHT + 18)) role="img" aria-label=(words.events_per_day) {
            @for (at, day) in days.iter().enumerate() {
                @let height = (day.events * HEIGHT).div_ceil(most);
                @let left = at as u64 * step;
                rect.bar x=(left + 2) y=(HEIGHT - height) width=(step.saturating_sub(4).max(1)) height=(height) rx="2" {
                    title { (day.day) ": " (day.events) }
                }
                @if at == 0 || at + 1 == days.len() {
                    text.tick x=(if at == 0 { left + 2 } else { left + step - 2 }) y=(HEIGHT + 14)
                        text-anchor=(if at == 0 { "start" } else { "end" }) { (day.day.get(5..).unwrap_or(&day.day)) }
                }
            }
            line.axis x1="0" y1=(HEIGHT) x2=(WIDTH) y2=(HEIGHT) {}
            text.tick x=(WIDTH / 2) y=(HEIGHT + 14) text-anchor="middle" { "max " (most) }
        }
        table.unseen {
            caption { (words.events_per_day) }
            tr { th scope="col" { (words.day) } th scope="col" { (words.events) } }
            @for day in days { tr { td { (day.day) } td { (day.events) } } }
        }
    }
}
