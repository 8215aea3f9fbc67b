//! `warploom man`: a page for each command, from the command line's own descriptions.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use admin::output;
use anyhow::{Context, Result};
use clap::builder::Resettable;
use clap::{Args, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

/// Headings of the examples in a command's help.
const EXAMPLES: [&str; 2] = ["Examples:", "Example:"];

/// `warploom man`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  warploom man | man -l -                           the page of warploom itself
  warploom man man1 && man -l man1/warploom-up.1    all pages, one of them shown
  warploom man ~/.local/share/man/man1              from then on: man warploom-tenant-create")]
pub(crate) struct ManArgs {
    /// Folder for the pages, created if it does not exist; without one, prints the page of warploom
    /// itself
    dir: Option<PathBuf>,
}

/// A page: the name of its file and its contents.
struct Page {
    name: String,
    text: Vec<u8>,
}

/// Prints the main page, or writes all pages.
///
/// # Errors
/// If they cannot be written.
pub(crate) fn man(args: &ManArgs, command: Command, json: bool) -> Result<()> {
    let pages = pages(command)?;
    let Some(dir) = &args.dir else {
        let main = pages.first().map(|page| &page.text[..]);
        return output::bytes(main.unwrap_or_default());
    };
    write(&pages, dir)?;
    match json {
        true => output::line(serde_json::json!({"pages": pages.len(), "dir": dir})),
        false => output::line(format_args!("{} pages: {}", pages.len(), dir.display())),
    }
}

fn write(pages: &[Page], dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir).with_context(|| format!("making {}", dir.display()))?;
    for page in pages {
        let path = dir.join(&page.name);
        std::fs::write(&path, &page.text).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

/// The pages of a command and of all visible commands below it, its own first.
fn pages(mut command: Command) -> Result<Vec<Page>> {
    command.build();
    let version = command.get_version().unwrap_or_default().to_owned();
    let mut pages = Vec::new();
    add(command, &version, None, &mut pages)?;
    Ok(pages)
}

fn add(command: Command, version: &str, above: Option<&str>, pages: &mut Vec<Page>) -> Result<()> {
    let shown = |it: &&Command| !it.is_hide_set() && it.get_name() != "help";
    let below: Vec<_> = command.get_subcommands().filter(shown).cloned().collect();
    let named = command.get_display_name().unwrap_or(command.get_name());
    let name = named.to_owned();
    let text = page(command, version, above)?;
    let file = format!("{name}.1");
    pages.push(Page { name: file, text });
    for command in below {
        add(command, version, Some(&name), pages)?;
    }
    Ok(())
}

/// The contents of a command's page.
fn page(command: Command, version: &str, above: Option<&str>) -> Result<Vec<u8>> {
    let help = command.get_after_help().map(ToString::to_string);
    // These have their own form below.
    let command = command
        .after_help(Resettable::Reset)
        .version(Resettable::Reset)
        .mut_subcommands(|it| it.version(Resettable::Reset));
    let name = command.get_display_name().unwrap_or(command.get_name());
    // An empty date is printed as nothing, and the next field would take its place.
    let [dateless, dated] = ["", "\"\""].map(|date| format!(".TH {name} 1 {date} "));
    let mut text = Vec::new();
    let man = Man::new(command)
        .source(format!("warploom {version}"))
        .manual("Warploom");
    man.render(&mut text)?;
    let mut text = String::from_utf8(text)?
        .replacen(&dateless, &dated, 1)
        .into_bytes();
    let mut rest = Roff::new();
    told(&mut rest, &help.unwrap_or_default());
    if let Some(above) = above {
        rest.control("SH", ["SEE ALSO"]);
        rest.text([bold(above), roman("(1)")]);
    }
    rest.to_writer(&mut text)?;
    text.flush()?;
    Ok(text)
}

/// Adds the examples, then the other paragraphs at the end of a command's help. Lines with columns
/// stay as they are; others become paragraphs.
fn told(page: &mut Roff, help: &str) {
    let paragraphs = help.split("\n\n").filter(|it| !it.trim().is_empty());
    let is_example = |it: &&str| EXAMPLES.iter().any(|above| it.starts_with(above));
    let (examples, others): (Vec<_>, Vec<_>) = paragraphs.partition(is_example);
    for (heading, paragraphs) in [("EXAMPLES", examples), ("NOTES", others)] {
        for (at, paragraph) in paragraphs.into_iter().enumerate() {
            match at {
                0 => page.control("SH", [heading]),
                _ => page.control("PP", []),
            };
            let head = usize::from(is_example(&paragraph));
            let lines: Vec<_> = paragraph.lines().skip(head).collect();
            as_they_are(page, &lines);
        }
    }
}

/// Adds lines to a page, each on its own line if they have columns.
fn as_they_are(page: &mut Roff, lines: &[&str]) {
    let is_set_out = lines.iter().any(|line| line.contains("  "));
    if is_set_out {
        page.control("nf", []);
    }
    for line in lines {
        page.text([roman(line.strip_prefix("  ").unwrap_or(line))]);
    }
    if is_set_out {
        page.control("fi", []);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeSet;
    use std::process::{Command as Process, Stdio};

    use super::*;

    /// The names of the files of a command and of the visible commands below it.
    fn files(command: &Command, name: &str, all: &mut BTreeSet<String>) {
        all.insert(format!("{name}.1"));
        for below in command.get_subcommands() {
            if !below.is_hide_set() && below.get_name() != "help" {
                files(below, &format!("{name}-{}", below.get_name()), all);
            }
        }
    }

    /// A program's complaint about a page; `None` if it has none or is not installed.
    fn complaint(program: &[&str], page: &Page) -> Option<String> {
        let mut checks = Process::new(program[0])
            .args(&program[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .ok()?;
        let mut into = checks.stdin.take().expect("it reads");
        into.write_all(&page.text).expect("it reads");
        drop(into);
        let output = checks.wait_with_output().expect("it ends");
        let said = [
            output.stderr,
            match program[0] {
                "mandoc" => output.stdout,
                _ => Vec::new(),
            },
        ];
        Some(String::from_utf8_lossy(&said.concat()).into_owned())
    }

    /// Checks the pages of a command line.
    pub(crate) fn check(command: Command) {
        let mut wanted = BTreeSet::new();
        files(&command, command.get_name(), &mut wanted);
        let pages = pages(command).expect("pages");
        let names: BTreeSet<_> = pages.iter().map(|page| page.name.clone()).collect();
        assert_eq!(names, wanted);
        assert_eq!(pages.len(), wanted.len());
        assert_eq!(pages[0].name, "warploom.1");
        for page in &pages {
            let (name, text) = (&page.name, String::from_utf8_lossy(&page.text));
            for part in [".TH ", ".SH NAME", ".SH SYNOPSIS", ".SH EXAMPLES\n.nf\n"] {
                assert!(text.contains(part), "{name} lacks {part}: {text}");
            }
            assert!(
                !text.contains("demo\\-tenant"),
                "{name} shows what is hidden"
            );
            for program in [
                &["mandoc", "-Tlint", "-Werror"][..],
                &["groff", "-man", "-Tutf8", "-Kutf8", "-ww", "-z"],
            ] {
                let said = complaint(program, page).unwrap_or_default();
                assert_eq!(said, "", "{name}: {program:?}");
            }
        }
    }
}
