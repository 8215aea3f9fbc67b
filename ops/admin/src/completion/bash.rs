//! Completion for bash, which splits words at `=` and `:`, takes candidates literally, and does not
//! quote them.

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;

use clap::Command;
use clap_complete::engine::complete;
use clap_complete::env::EnvCompleter;

use super::line::rejoined;

/// The adapter for bash.
pub(super) struct Bash;

/// Prints one candidate a line, in a form that bash does not split, expand or run. No space follows
/// an incomplete candidate, such as a folder or a setting without its value.
const SCRIPT: &str = r#"_complete_NAME() {
    local words=("${COMP_WORDS[@]:0:COMP_CWORD+1}") line
    if [[ ! "${words[COMP_CWORD]}" =~ ^[=:]+$ ]]; then
        words[COMP_CWORD]=$2
    fi
    COMPREPLY=()
    while IFS= read -r line; do
        COMPREPLY+=("$line")
    done < <(VARIABLE=bash COMPLETER -- "${words[@]}" 2>/dev/null)
    if [[ "${COMPREPLY[0]-}" =~ [=/]$ ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
complete -o bashdefault -o nosort -F _complete_NAME BIN 2>/dev/null ||
    complete -o bashdefault -F _complete_NAME BIN
"#;

impl EnvCompleter for Bash {
    fn name(&self) -> &'static str {
        "bash"
    }

    fn is(&self, name: &str) -> bool {
        name == "bash"
    }

    fn write_registration(
        &self,
        variable: &str,
        name: &str,
        bin: &str,
        completer: &str,
        out: &mut dyn Write,
    ) -> Result<(), std::io::Error> {
        let script = SCRIPT
            .replace("NAME", &name.replace('-', "_"))
            .replace("BIN", &within_quotes(bin))
            .replace("VARIABLE", variable)
            .replace("COMPLETER", &within_quotes(completer));
        out.write_all(script.as_bytes())
    }

    fn write_complete(
        &self,
        command: &mut Command,
        words: Vec<OsString>,
        here: Option<&Path>,
        out: &mut dyn Write,
    ) -> Result<(), std::io::Error> {
        let line = rejoined(words);
        let Some(last) = line.words.len().checked_sub(1) else {
            return Ok(());
        };
        for candidate in complete(command, line.words, last, here)? {
            let text = candidate.get_value().to_str();
            let rest = text.and_then(|text| text.get(line.kept..));
            if let Some(word) = rest.and_then(word) {
                writeln!(out, "{word}")?;
            }
        }
        Ok(())
    }
}

/// Quotes a text as one word for bash. Returns `None` for a text with control characters, such as a
/// line break, which may change the terminal's display.
fn word(text: &str) -> Option<String> {
    let mut word = String::with_capacity(text.len());
    for (at, letter) in text.char_indices() {
        if letter.is_control() {
            return None;
        }
        // A tilde at the beginning would be the user's home folder.
        let is_plain = letter.is_alphanumeric() || "-_.:=/,+@%".contains(letter);
        if !is_plain && (at, letter) != (0, '~') {
            word.push('\\');
        }
        word.push(letter);
    }
    Some(word)
}

/// A text in single quotes, which a shell does not interpret.
fn within_quotes(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
    match text.bytes().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command as Process;

    use super::*;

    #[test]
    fn what_bash_makes_of_a_word_is_the_text_and_nothing_else() {
        for text in [
            "chat",
            "worker.engine=native",
            "a b",
            "it's",
            "\"x\"",
            "$(touch gone)",
            "`touch gone`",
            "a;b|c&d>e<f",
            "*?[x]{a,b}",
            "!!#\\^",
            "grün",
        ] {
            let word = word(text).expect("a word");
            let script = format!("printf %s {word}");
            let output = Process::new("bash")
                .args(["--norc", "-c", &script])
                .output();
            let output = output.expect("bash runs");
            assert_eq!(String::from_utf8_lossy(&output.stdout), text, "{word}");
            let quoted = format!("printf %s {}", within_quotes(text));
            let output = Process::new("bash")
                .args(["--norc", "-c", &quoted])
                .output();
            let output = output.expect("bash runs");
            assert_eq!(String::from_utf8_lossy(&output.stdout), text, "{quoted}");
        }
        for hostile in ["a\nb", "a\u{1b}[2J", "a\tb", "\0"] {
            assert_eq!(word(hostile), None, "{hostile:?}");
        }
        assert_eq!(word("~/models/").as_deref(), Some("~/models/"));
        assert_eq!(word("a~").as_deref(), Some("a\\~"));
    }
}
