//! Candidates for a word of a command line: a function of the cluster's names and the typed text.

use clap_complete::CompletionCandidate;

/// Maximum number of candidates: more are no help, and a shell asks before it shows them.
pub(super) const MOST: usize = 200;
/// Maximum number of characters of a name.
const NAME: usize = 128;
/// Maximum number of characters of a help text.
const HELP: usize = 80;

/// A candidate for an argument, with a short description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    name: String,
    help: String,
}

impl Candidate {
    /// A candidate with a name and a help text, which some shells show beside it.
    pub fn new(name: impl Into<String>, help: impl Into<String>) -> Self {
        let (name, help) = (name.into(), help.into());
        Self { name, help }
    }

    /// Prefixes the name with its kind.
    #[must_use]
    pub(super) fn behind(self, kind: &str) -> Self {
        Self {
            name: format!("{kind}{}", self.name),
            ..self
        }
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// True if every shell takes the name literally. A name that a shell would quote, expand, run or
/// take for an option is never offered.
fn is_plain(name: &str) -> bool {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.:=/,+@".contains(letter);
    !name.is_empty() && name.len() <= NAME && !name.starts_with('-') && name.chars().all(plain)
}

/// One line, without characters that would change the display of the terminal.
fn shown(help: &str) -> String {
    let letters = help.chars().map(|letter| match letter.is_control() {
        true => ' ',
        false => letter,
    });
    letters.take(HELP).collect()
}

/// Candidates that begin with the typed text, each once, in the given order.
pub(super) fn offered(
    all: impl IntoIterator<Item = Candidate>,
    typed: &str,
) -> Vec<CompletionCandidate> {
    let mut seen = std::collections::BTreeSet::new();
    let fitting = all
        .into_iter()
        .filter(|it| it.name.starts_with(typed) && is_plain(&it.name))
        .filter(|it| seen.insert(it.name.clone()))
        .take(MOST);
    let offer = |it: Candidate| {
        let help = shown(&it.help);
        let help = (!help.trim().is_empty()).then(|| help.into());
        CompletionCandidate::new(it.name).help(help)
    };
    fitting.map(offer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(all: &[&str], typed: &str) -> Vec<String> {
        let all = all.iter().map(|name| Candidate::new(*name, ""));
        let offered = offered(all, typed).into_iter();
        let name = |it: CompletionCandidate| it.get_value().to_string_lossy().into_owned();
        offered.map(name).collect()
    }

    #[test]
    fn what_goes_on_as_was_typed_is_offered_once_and_in_order() {
        let all = ["train", "chat", "charlie", "chat"];
        assert_eq!(names(&all, "ch"), ["chat", "charlie"]);
        assert_eq!(names(&all, ""), ["train", "chat", "charlie"]);
        assert_eq!(names(&all, "chats"), [""; 0]);
    }

    #[test]
    fn what_a_shell_would_read_as_something_else_is_offered_in_none() {
        let hostile = [
            "a b",
            "a'b",
            "a\"b",
            "$(reboot)",
            "`reboot`",
            "a;b",
            "a|b",
            "a&b",
            "a>b",
            "a*",
            "a?",
            "a\\b",
            "a\nb",
            "a\tb",
            "a\rb",
            "a\u{b}b",
            "a\u{1b}[2J",
            "a\0b",
            "a\u{7f}",
            "a\u{9b}b",
            "~root",
            "!!",
            "#a",
            "{a,b}",
            "[a]",
            "%1",
            "^a^b",
            "--force",
            "-f",
            "",
            "\u{202e}a",
        ];
        assert_eq!(names(&hostile, ""), [""; 0]);
        let long = "a".repeat(NAME + 1);
        assert_eq!(names(&[&long, &long[1..]], ""), [&long[1..]]);
        let good = [
            "chat-2",
            "0000000700000003",
            "worker.engine=native",
            "llama_3.1",
        ];
        assert_eq!(names(&good, ""), good);
    }

    #[test]
    fn there_are_not_too_many_and_help_is_one_line() {
        let many: Vec<_> = (0..10_000).map(|it| it.to_string()).collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        assert_eq!(names(&many, "").len(), MOST);
        let help = format!("a\tword\nor \u{1b}[31mtwo{}", "x".repeat(1_000));
        let offered = offered([Candidate::new("chat", help)], "");
        let help = offered[0].get_help().expect("help").to_string();
        assert!(help.starts_with("a word or  [31mtwo"), "{help:?}");
        assert_eq!(help.chars().count(), HELP);
        assert_eq!(
            super::offered([Candidate::new("a", "\n")], "")[0].get_help(),
            None
        );
    }
}
