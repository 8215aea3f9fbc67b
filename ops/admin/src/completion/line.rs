//! The command line that a shell passes: its typed words, and the settings among them.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// The words of a command line up to the cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    /// The words. The first is the program; the last is the one being typed.
    pub(super) words: Vec<OsString>,
    /// Length of the prefix of the last word that the shell keeps, regardless of the candidate.
    pub(super) kept: usize,
}

/// True if this is a separator of bash: its own word, between two that were typed as one.
fn splits(word: &OsStr) -> bool {
    let bytes = word.as_encoded_bytes();
    !bytes.is_empty() && bytes.iter().all(|byte| b"=:".contains(byte))
}

/// Joins the words that bash split at `=` and `:`. For example, `--set`, `a`, `=`, `b` becomes
/// `--set a=b`.
pub(super) fn rejoined(pieces: impl IntoIterator<Item = OsString>) -> Line {
    let (mut words, mut kept) = (Vec::<OsString>::new(), 0);
    let (mut goes_on, mut is_first) = (false, true);
    for piece in pieces {
        let splits = splits(&piece) && !is_first;
        let is_option = piece.as_encoded_bytes().starts_with(b"-");
        match words.last_mut() {
            Some(word) if splits || (goes_on && !is_option) => {
                if !splits {
                    kept = word.len();
                }
                word.push(&piece);
                if splits {
                    kept = word.len();
                }
            }
            _ => {
                kept = 0;
                words.push(piece);
            }
        }
        (goes_on, is_first) = (splits, false);
    }
    Line { words, kept }
}

/// The configuration file and the settings on a command line before `--`.
pub(super) fn named(words: &[OsString]) -> (Option<PathBuf>, Vec<(String, String)>) {
    let (mut config, mut settings) = (None, Vec::new());
    // The last word is not complete.
    let whole = words.len().saturating_sub(1);
    let mut words = words[..whole].iter().map(|word| word.to_string_lossy());
    while let Some(word) = words.next().filter(|word| word != "--") {
        let (option, value) = match word.split_once('=') {
            Some((option, value)) => (option.to_owned(), Some(value.to_owned())),
            None => (word.into_owned(), None),
        };
        if option != "--config" && option != "--set" {
            continue;
        }
        let value = value.or_else(|| words.next().map(|word| word.into_owned()));
        let Some(value) = value.as_deref().map(unquoted) else {
            break;
        };
        match (&*option, value.split_once('=')) {
            ("--config", _) => config = Some(PathBuf::from(value)),
            (_, Some((key, value))) => {
                settings.push((key.trim().to_owned(), unquoted(value).trim().to_owned()));
            }
            _ => {}
        }
    }
    (config, settings)
}

/// A word without surrounding quotes.
fn unquoted(word: &str) -> &str {
    let within = |quote: char| word.strip_prefix(quote)?.strip_suffix(quote);
    within('"').or_else(|| within('\'')).unwrap_or(word)
}

/// The words of the command line to complete: those after `--`.
pub(super) fn words() -> Vec<OsString> {
    let arguments = std::env::args_os();
    let words = arguments.skip_while(|word| word != "--").skip(1);
    rejoined(words).words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(text: &str) -> Vec<OsString> {
        // An underscore stands for a word of which nothing is typed.
        let words = text.split(' ').map(|word| match word {
            "_" => "",
            word => word,
        });
        words.map(OsString::from).collect()
    }

    #[test]
    fn words_are_what_they_were_before_bash_split_them() {
        for (split, whole, kept) in [
            ("w session end 00", "w session end 00", 0),
            ("w top --sort _", "w top --sort _", 0),
            ("w top --sort = na", "w top --sort=na", 7),
            ("w top --sort =", "w top --sort=", 7),
            ("w --set worker.engine = n", "w --set worker.engine=n", 14),
            (
                "w --set worker.gpu = 1 end _",
                "w --set worker.gpu=1 end _",
                0,
            ),
            ("w --set worker.gpu = -v st", "w --set worker.gpu= -v st", 0),
            (
                "w --set broker.url = nats : //h : 42 --tenant = c",
                "w --set broker.url=nats://h:42 --tenant=c",
                9,
            ),
            // If bash does not split, nothing is kept.
            ("w --tenant=c", "w --tenant=c", 0),
            ("= x", "= x", 0),
        ] {
            let line = rejoined(pieces(split));
            assert_eq!(line.words, pieces(whole), "{split}");
            assert_eq!(line.kept, kept, "{split}");
        }
        assert_eq!(rejoined([]).words, Vec::<OsString>::new());
    }

    #[test]
    fn settings_of_the_line_are_those_before_the_programs_own() {
        let named = |line: &str| named(&pieces(line));
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let (config, settings) =
            named("w --config a.toml --set x.y=1 session --set=z.z='2' --set \"q.r=3\" end _");
        assert_eq!(config, Some(PathBuf::from("a.toml")));
        assert_eq!(
            settings,
            [pair("x.y", "1"), pair("z.z", "2"), pair("q.r", "3")]
        );
        assert_eq!(named("w run -- p --set a.b=1 --config c _"), (None, vec![]));
        // The word being typed does not count yet.
        assert_eq!(named("w --set a.b=1"), (None, vec![]));
        assert_eq!(named("w --config=c --set"), (Some("c".into()), vec![]));
        assert_eq!(named("w --set x --set"), (None, vec![]));
        assert_eq!(super::named(&[]), (None, vec![]));
    }
}
