//! The frame of every page: who looks, in which language, where else to go, and the fragments that change by themselves.

use maud::{DOCTYPE, Markup, html};

use crate::assets::{SCRIPT, STYLE};
use crate::markdown::named;
use crate::parts::{decode, encode};
use crate::words::{Lang, Words};

/// How a page is painted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Theme {
    #[default]
    Auto,
    Light,
    Dark,
}

impl Theme {
    pub const ALL: [Self; 3] = [Self::Auto, Self::Light, Self::Dark];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|theme| theme.as_str() == word)
    }
}

/// Who looks at a page.
#[derive(Clone, Debug)]
pub struct Who {
    pub name: String,
    pub may_write: bool,
    /// May change the deployment itself.
    pub may_admin: bool,
}

/// What came of something that was asked for.
#[derive(Clone, Debug)]
pub enum Notice {
    Done(String),
    Refused(String),
    /// In our own words, with code between backticks.
    Wrong(&'static str),
}

/// What every page knows of its reader.
pub struct Shell {
    pub lang: Lang,
    pub theme: Theme,
    pub deployment: String,
    /// Where the reader is, with what was asked for behind `?`.
    pub path: String,
    pub who: Option<Who>,
    pub notice: Option<Notice>,
    pub open_questions: usize,
    /// Names of those whom texts mention by an id.
    pub names: Vec<(String, String)>,
}

impl Shell {
    pub fn words(&self) -> &'static Words {
        self.lang.words()
    }

    pub(crate) fn may_write(&self) -> bool {
        self.who.as_ref().is_some_and(|who| who.may_write)
    }

    pub(crate) fn may_admin(&self) -> bool {
        self.who.as_ref().is_some_and(|who| who.may_admin)
    }

    pub(crate) fn name_of(&self, id: &str) -> String {
        let known = self.names.iter().find(|(number, _)| number == id);
        known.map_or_else(|| self.words().member.to_owned(), |(_, name)| name.clone())
    }

    /// A line of text with names for those whom it mentions.
    pub(crate) fn named(&self, line: &str) -> String {
        named(line, &|id| self.name_of(id))
    }

    /// The field of a form that says where it stands.
    pub(crate) fn back(&self) -> Markup {
        html! { input type="hidden" name="back" value=(self.path); }
    }

    /// What the address asks for by this name; none where that is empty.
    pub(crate) fn asked(&self, name: &str) -> Option<String> {
        let query = self.path.split_once('?')?.1;
        let (_, value) = query.split('&').filter_map(|part| part.split_once('=')).find(|(known, _)| *known == name)?;
        Some(decode(value)).filter(|value| !value.is_empty())
    }

    /// This page with one thing asked for otherwise.
    pub(crate) fn with(&self, name: &str, value: &str) -> String {
        self.with_all(&[(name, value)])
    }

    /// This page with some things asked for otherwise; what is empty is not asked for.
    pub(crate) fn with_all(&self, changes: &[(&str, &str)]) -> String {
        let (path, query) = self.path.split_once('?').unwrap_or((&self.path, ""));
        let is_changed = |part: &&str| {
            let name = part.split('=').next().unwrap_or_default();
            part.is_empty() || changes.iter().any(|(changed, _)| *changed == name)
        };
        let mut parts: Vec<String> = query.split('&').filter(|part| !is_changed(part)).map(str::to_owned).collect();
        let wanted = changes.iter().filter(|(_, value)| !value.is_empty());
        parts.extend(wanted.map(|(name, value)| format!("{name}={}", encode(value))));
        if parts.is_empty() { path.to_owned() } else { format!("{path}?{}", parts.join("&")) }
    }
}

/// A part of a page that is fetched again when one of its topics has news.
pub struct Fragment {
    pub id: &'static str,
    pub topics: Vec<String>,
    pub markup: Markup,
}

impl Fragment {
    pub(crate) fn new(id: &'static str, topics: &[&str], markup: Markup) -> Self {
        Self { id, topics: topics.iter().map(|topic| (*topic).to_owned()).collect(), markup }
    }

    fn shown(&self) -> Markup {
        html! { section id=(self.id) data-live=(self.topics.join(" ")) { (self.markup) } }
    }
}

/// A whole view.
pub struct Page {
    /// The entry of the navigation that it belongs to.
    pub nav: &'static str,
    pub title: String,
    pub fragments: Vec<Fragment>,
    /// A dialog over it, and where closing it leads.
    pub dialog: Option<(String, Markup)>,
}

impl Page {
    /// All of it.
    pub fn whole(&self, shell: &Shell) -> String {
        let words = shell.words();
        let page = html! {
            (DOCTYPE)
            html lang=(shell.lang.as_str()) data-theme=(shell.theme.as_str()) {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    meta name="referrer" content="same-origin";
                    title { (self.title) " · " (shell.deployment) }
                    link rel="icon" href="data:,";
                    link rel="stylesheet" href=(STYLE.path());
                    script src=(SCRIPT.path()) defer {}
                }
                body data-lost=(words.lost) data-expired=(words.expired) data-gone=(words.gone) data-unsent=(words.not_sent)
                    data-unfetched=(words.unfetched) data-vanished=(words.vanished) data-unkept=(words.draft_unkept) data-detail=(words.details) data-saved=(words.saved) data-live-word=(words.connected) data-signed[shell.who.is_some()] {
                    a.skip href="#main" { (words.skip) }
                    (top(shell, self.nav))
                    @match &shell.notice {
                        Some(Notice::Wrong(said)) => div.notice data-kind="bad" role="alert" { strong { (words.refused) } " " (crate::parts::code_marks(said)) },
                        Some(Notice::Done(said)) => div.notice data-kind="good" role="status" { (said) },
                        Some(Notice::Refused(said)) => div.notice data-kind="bad" role="alert" { strong { (words.refused) } " " (said) },
                        None => {},
                    }
                    main id="main" tabindex="-1" data-view=(self.nav) {
                        @for fragment in &self.fragments { (fragment.shown()) }
                    }
                    @if let Some((close, dialog)) = &self.dialog {
                        dialog id="dialog" open data-close=(close) aria-labelledby="dialog-title" { (asked(Some(dialog))) }
                    }
                    div.notice id="told" data-kind="good" aria-hidden="true" hidden {}
                    div id="announce" class="unseen" role="status" aria-live="polite" {}
                }
            }
        };
        page.into_string()
    }

    /// The fragments of these names, for a page that has the rest.
    pub fn some(&self, shell: &Shell, ids: &[&str]) -> String {
        let mut text = String::new();
        if ids.contains(&"count") {
            text.push_str(&count(shell).into_string());
        }
        for fragment in self.fragments.iter().filter(|fragment| ids.contains(&fragment.id)) {
            text.push_str(&fragment.shown().into_string());
        }
        if ids.contains(&ASK) {
            text.push_str(&asked(self.dialog.as_ref().map(|(_, dialog)| dialog)).into_string());
        }
        text
    }
}

/// What a dialog holds is fetched again like a fragment when something was refused; it is empty where there is nothing left to ask.
const ASK: &str = "ask";

fn asked(dialog: Option<&Markup>) -> Markup {
    html! { section id=(ASK) data-live="" { @if let Some(dialog) = dialog { (dialog) } } }
}

fn count(shell: &Shell) -> Markup {
    let many = if shell.open_questions > 99 { "99+".to_owned() } else { shell.open_questions.to_string() };
    let label = shell.lang.count(shell.open_questions, "열린 질문", "open question", "open questions");
    html! {
        span id="count" data-live="questions" {
            @if shell.open_questions > 0 { span.count aria-label=(label) { (many) } }
        }
    }
}

fn top(shell: &Shell, nav: &str) -> Markup {
    let words = shell.words();
    let entries = [
        ("overview", "/", words.overview),
        ("conversations", "/conversations", words.conversations),
        ("tasks", "/tasks", words.tasks),
        ("questions", "/questions", words.questions),
        ("chat", "/chat", words.chat),
        ("events", "/events", words.events),
        ("jobs", "/jobs", words.jobs),
        ("plugins", "/plugins", words.plugins),
    ];
    let further = [
        ("milestones", "/milestones", words.milestones),
        ("todos", "/todos", words.todos),
        ("workspace", "/workspace", words.workspace),
        ("channels", "/channels", words.channels),
        ("settings", "/settings", words.settings),
    ];
    let chosen = further.iter().find(|(key, ..)| *key == nav);
    html! {
        header.top {
            a.brand href="/" { svg viewBox="0 0 16 16" aria-hidden="true" { path d="M3 13 8 3l5 10M5 9h6" {} } (shell.deployment) }
            @if let Some(who) = &shell.who {
                nav aria-label=(words.views) {
                    @for (key, path, word) in entries {
                        a href=(path) aria-current=[(key == nav).then_some("page")] {
                            (word) @if key == "questions" { (count(shell)) }
                        }
                    }
                }
                details.look.further {
                    summary { span data-here[chosen.is_some()] { (chosen.map_or(words.further, |(_, _, word)| word)) } }
                    nav aria-label=(words.further) {
                        @for (key, path, word) in further { a href=(path) aria-current=[(key == nav).then_some("page")] { (word) } }
                    }
                }
                span.live id="live" hidden { span.mark aria-hidden="true" { "●" } " " span.word { (words.connected) } }
                (look(shell))
                form.out method="post" action="/logout" data-plain {
                    button.quiet type="submit" title=(format!("{} {}", words.signed_in_as, who.name)) { (words.sign_out) }
                }
            } @else {
                (look(shell))
            }
            div id="banner" role="status" aria-live="polite" hidden {}
        }
    }
}

/// Language and colours, each as links that come back here.
fn look(shell: &Shell) -> Markup {
    let words = shell.words();
    let back = encode(&shell.path);
    html! {
        details.look {
            summary { span { (shell.lang.as_str().to_uppercase()) " · " (theme_word(words, shell.theme)) } }
            div {
                p.small { (words.language) }
                @for lang in Lang::ALL {
                    a href=(format!("/look?lang={}&back={back}", lang.as_str())) hreflang=(lang.as_str()) lang=(lang.as_str())
                        aria-current=[(lang == shell.lang).then_some("true")] { (lang.pick("한국어", "English")) }
                }
                p.small { (words.theme) }
                @for theme in Theme::ALL {
                    a href=(format!("/look?theme={}&back={back}", theme.as_str()))
                        aria-current=[(theme == shell.theme).then_some("true")] { (theme_word(words, theme)) }
                }
            }
        }
    }
}

fn theme_word(words: &Words, theme: Theme) -> &'static str {
    match theme {
        Theme::Auto => words.theme_auto,
        Theme::Light => words.theme_light,
        Theme::Dark => words.theme_dark,
    }
}
