//! The shells: the script that each loads once, and the answer to that script at each Tab.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Command, ValueEnum};
use clap_complete::CompleteEnv;
use clap_complete::env::{Elvish, EnvCompleter, Fish, Powershell, Shells, Zsh};

use super::bash::Bash;

/// The variable with which a shell's script requests candidates.
const VARIABLE: &str = "WARPLOOM_COMPLETE";
/// The variable in which some scripts pass the index of the word being typed.
const INDEX: &str = "_CLAP_COMPLETE_INDEX";
/// The command to complete.
const NAME: &str = "warploom";
const SHELLS: Shells<'static> = Shells(&[
    &NamesAlone(Bash),
    &NamesAlone(Zsh),
    &NamesAlone(Fish),
    &NamesAlone(Elvish),
    &NamesAlone(Powershell),
]);

/// A shell that completes commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// Bash, 4.4 or later for candidates in our order.
    Bash,
    /// Zsh.
    Zsh,
    /// Fish.
    Fish,
    /// Elvish.
    Elvish,
    /// PowerShell.
    #[value(name = "powershell")]
    PowerShell,
}

/// A shell's adapter that offers options only after a dash. Otherwise names would drown among the
/// options of every command, and without a name, `--` would be completed needlessly.
struct NamesAlone<S>(S);

impl<S: EnvCompleter> EnvCompleter for NamesAlone<S> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn is(&self, name: &str) -> bool {
        self.0.is(name)
    }

    fn write_registration(
        &self,
        variable: &str,
        name: &str,
        bin: &str,
        completer: &str,
        out: &mut dyn Write,
    ) -> Result<(), std::io::Error> {
        self.0
            .write_registration(variable, name, bin, completer, out)
    }

    fn write_complete(
        &self,
        command: &mut Command,
        words: Vec<OsString>,
        here: Option<&Path>,
        out: &mut dyn Write,
    ) -> Result<(), std::io::Error> {
        // Zsh passes the index of the word being typed, which other words may follow. In other
        // shells it is the last word.
        let index = env::var(INDEX).ok().and_then(|index| index.parse().ok());
        let typed = words.get(index.unwrap_or(words.len().saturating_sub(1)));
        let is_begun = typed.is_some_and(|typed| !typed.is_empty());
        let mut lines = Vec::new();
        self.0.write_complete(command, words, here, &mut lines)?;
        match is_begun {
            true => out.write_all(&lines),
            false => out.write_all(&names(&lines)),
        }
    }
}

/// The candidates, one a line, that are not options.
fn names(lines: &[u8]) -> Vec<u8> {
    let all = lines.split_inclusive(|byte| *byte == b'\n');
    let names: Vec<_> = all.filter(|line| !line.starts_with(b"-")).collect();
    names.concat()
}

impl Shell {
    fn completer(self) -> &'static dyn EnvCompleter {
        match self {
            Self::Bash => &NamesAlone(Bash),
            Self::Zsh => &NamesAlone(Zsh),
            Self::Fish => &NamesAlone(Fish),
            Self::Elvish => &NamesAlone(Elvish),
            Self::PowerShell => &NamesAlone(Powershell),
        }
    }
}

/// The script that makes a shell ask this program, as it was called, for candidates.
///
/// # Errors
/// None: it is written to memory.
pub fn registration(shell: Shell) -> std::io::Result<Vec<u8>> {
    let called = env::args_os()
        .next()
        .map_or_else(|| NAME.into(), PathBuf::from);
    // A bare name is looked up on PATH at each completion; a relative path is resolved from here.
    let program = match called.components().count() {
        0 | 1 => called,
        _ => env::current_dir()?.join(called),
    };
    let mut script = Vec::new();
    let program = program.to_string_lossy();
    shell
        .completer()
        .write_registration(VARIABLE, NAME, NAME, &program, &mut script)?;
    Ok(script)
}

/// Answers a shell's request for candidates; returns true if there was one. On an error fewer
/// candidates are offered, without a message.
#[must_use]
pub fn answer(command: impl Fn() -> Command) -> bool {
    let asks = |shell: &OsStr| {
        let name = Path::new(shell).file_stem().and_then(|name| name.to_str());
        name.is_some_and(|name| SHELLS.completer(name).is_some())
    };
    if !env::var_os(VARIABLE).is_some_and(|shell| asks(&shell)) {
        return false;
    }
    std::panic::set_hook(Box::new(|_| {}));
    let here = env::current_dir().ok();
    let answer = CompleteEnv::with_factory(command)
        .var(VARIABLE)
        .shells(SHELLS);
    // An error has no reader here.
    let _ = answer.try_complete(env::args_os(), here.as_deref());
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_not_among_the_names() {
        let names = |lines: &str| String::from_utf8(names(lines.as_bytes())).expect("text");
        assert_eq!(names("chat\n--json\ntrain\n-v"), "chat\ntrain\n");
        assert_eq!(names("--json\tPrints\n--set\tSets\n"), "");
        assert_eq!(names(""), "");
    }

    #[test]
    fn every_shell_has_a_script_that_asks_this_program_by_its_variable() {
        for shell in Shell::value_variants() {
            let script = String::from_utf8(registration(*shell).expect("a script")).expect("text");
            assert!(
                script.contains(VARIABLE) && script.contains(NAME),
                "{script}"
            );
            let named = shell.to_possible_value().expect("a name");
            assert!(SHELLS.completer(named.get_name()).is_some(), "{shell:?}");
        }
    }
}
