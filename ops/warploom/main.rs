//! The `warploom` binary: the product's commands, and with the feature `lab` those of the
//! laboratory.

mod completions;
mod man;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

use admin::settings::Settings;
use admin::telemetry::end_logs;
use admin::{completion, errors, output};
use anyhow::Result;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use warploom_cli::global::{Global, everywhere};
use warploom_cli::{commands, drop_in, exit};

/// Counts only while a benchmark requests it.
#[cfg(feature = "lab")]
#[global_allocator]
static ALLOCATOR: lab::bench::CountingAllocator = lab::bench::CountingAllocator;

/// A GPU hypervisor: many tenants share GPUs in one global, deterministic order.
#[derive(Debug, Parser)]
#[command(name = "warploom", version, propagate_version = true, after_help = examples())]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(flatten)]
    Product(commands::ProductCommand),
    /// Runs a controller: the control room's page and the interface over HTTP
    Controller(controller::ControllerArgs),
    /// Runs a tracer: makes traces of programs' requests and exports them
    Tracer(tracer::TracerArgs),
    /// Shows tenants, devices and sessions in the terminal, live
    Top(top::TopArgs),
    /// Prints a script with which a shell completes commands, including the cluster's own names
    Completions(completions::CompletionsArgs),
    /// Writes the manual pages, one for each command
    Man(man::ManArgs),
    #[cfg(feature = "lab")]
    #[command(flatten)]
    Lab(lab::LabCommand),
}

/// Follows the example of the laboratory, if that is included.
const EXAMPLES: &str = "\
\x20 warploom up                       a whole cluster on this host, until Ctrl-C
  warploom tenant create chat --priority 0 --slo 20ms
  warploom submit --tenant chat saxpy.ptx saxpy --grid 4 --block 256 \\
      --arg u32:1024 --arg f32:2.0 --arg f32*1024:x.f32 --arg f32*1024=1 --out 3
  warploom run -- python train.py   an unmodified CUDA program, on a worker's device
  warploom smi                      a tenant's devices, memory and processes
  warploom status                   tenants, workers, queues
  warploom replay                   recompute the launch order from the record, compare digests
  warploom order show --live        positions of the launch order as they end
  warploom completions bash         Tab completes tenants, sessions, settings

Exit codes: 0 ok, 1 failed, 2 usage, 3 unreachable. Errors are listed in docs/reference/errors.md.";

fn examples() -> String {
    let demo = match cfg!(feature = "lab") {
        true => {
            "  warploom demo                     three tenants share two devices, the leader is killed half-way\n"
        }
        false => "",
    };
    format!("Examples:\n{demo}{EXAMPLES}")
}

/// Maps a call by the name `nvidia-smi` to the command `smi`, with the devices as the calling
/// program sees them. `warploom run` provides this name if the machine has no `nvidia-smi` of its
/// own.
fn smi_by_name(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let name = arguments.first().map(Path::new).and_then(Path::file_name);
    if name == Some(OsStr::new(drop_in::SMI)) {
        arguments.splice(1..1, ["smi".into(), "--program".into()]);
    }
    arguments
}

/// All commands, as they are parsed.
fn command() -> clap::Command {
    everywhere(Cli::command())
}

/// Parses the command line; ends the process if it is invalid, with a message that contains no
/// login.
fn parsed(arguments: Vec<OsString>) -> Cli {
    let mut command = command();
    let matches = command.try_get_matches_from_mut(arguments);
    let read = matches.and_then(|matches| {
        let mut cli = Cli::from_arg_matches(&matches).map_err(|it| it.format(&mut command))?;
        cli.global.take(&matches);
        Ok(cli)
    });
    read.unwrap_or_else(|error| {
        let said = error.render().to_string();
        if !said.contains('@') {
            error.exit();
        }
        output::note(said.trim_end());
        std::process::exit(error.exit_code())
    })
}

/// Runs a command of another crate.
fn beside(
    global: &Global,
    command: impl FnOnce(&Settings, bool) -> Result<()>,
) -> Result<ExitCode> {
    command(&global.settings()?, global.json).map(|()| ExitCode::SUCCESS)
}

fn main() -> ExitCode {
    if completion::answer(command) {
        return ExitCode::SUCCESS;
    }
    let cli = parsed(smi_by_name(std::env::args_os().collect()));
    let done = match &cli.command {
        Command::Product(command) => commands::run(command, &cli.global),
        Command::Controller(args) => beside(&cli.global, |settings, json| {
            controller::controller(args, settings, json)
        }),
        Command::Tracer(args) => beside(&cli.global, |settings, _| tracer::tracer(args, settings)),
        Command::Top(args) => beside(&cli.global, |settings, json| top::top(args, settings, json)),
        // These need no settings: a starting shell may be in any folder.
        Command::Completions(args) => completions::completions(args).map(|()| ExitCode::SUCCESS),
        Command::Man(args) => {
            man::man(args, command(), cli.global.json).map(|()| ExitCode::SUCCESS)
        }
        #[cfg(feature = "lab")]
        Command::Lab(command) => lab::run(command, &cli.global),
    };
    let code = done.unwrap_or_else(|error| {
        if error.is::<errors::Unread>() {
            return ExitCode::SUCCESS;
        }
        output::note(format_args!("{error:#}"));
        ExitCode::from(exit::code(&error))
    });
    end_logs();
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn every_command_has_a_page_of_the_manual() {
        man::tests::check(command());
    }

    #[test]
    fn called_nvidia_smi_it_is_the_command_smi() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        let given = words("/drop-in/nvidia-smi pmon -c 1");
        let meant = words("/drop-in/nvidia-smi smi --program pmon -c 1");
        assert_eq!(smi_by_name(given), meant);
        let other = words("/bin/warploom smi -L");
        assert_eq!(smi_by_name(other.clone()), other);
        assert_eq!(smi_by_name(Vec::new()), Vec::<OsString>::new());
        command()
            .try_get_matches_from(meant)
            .expect("it is a command line");
    }

    #[test]
    fn examples_are_of_commands_that_are_there() {
        let command = super::command();
        for line in EXAMPLES
            .lines()
            .filter_map(|line| line.strip_prefix("  warploom "))
        {
            let name = line.split(' ').next().unwrap_or_default();
            assert!(command.find_subcommand(name).is_some(), "{line}");
        }
    }

    /// Checks that every help page has examples, each indented, and fits a terminal of 100 columns.
    fn check(command: &mut clap::Command) {
        let (name, help) = (command.get_name().to_owned(), command.render_long_help());
        let help = help.to_string();
        for line in help.lines() {
            assert!(line.chars().count() <= 100, "{name}: {line}");
        }
        let at = help
            .find("\nExample")
            .unwrap_or_else(|| panic!("{name} has no example"));
        let examples = help[at..]
            .lines()
            .skip(2)
            .take_while(|line| !line.is_empty());
        for example in examples {
            assert!(example.starts_with("  "), "{name}: {example}");
        }
        let shown = command
            .get_subcommands_mut()
            .filter(|inner| !inner.is_hide_set());
        shown
            .filter(|inner| inner.get_name() != "help")
            .for_each(check);
    }

    #[test]
    fn every_page_of_help_has_examples_within_a_hundred_columns() {
        let mut command = super::command().term_width(100);
        command.build();
        check(&mut command);
    }
}
