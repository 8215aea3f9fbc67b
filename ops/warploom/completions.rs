//! `warploom completions`: prints the script with which a shell completes warploom's commands.

use admin::completion::{Shell, registration};
use admin::output;
use anyhow::Result;
use clap::Args;

/// `warploom completions`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  echo 'source <(warploom completions bash)' >> ~/.bashrc
  echo 'source <(warploom completions zsh)' >> ~/.zshrc        behind compinit
  warploom completions fish > ~/.config/fish/completions/warploom.fish
  echo 'eval (warploom completions elvish | slurp)' >> ~/.config/elvish/rc.elv
  warploom completions powershell >> $PROFILE

The script asks this program at each Tab. Tenants, sessions, workers, groups, tokens, weights and profile
versions are those that the cluster has now: of the line's own --config and --set, else of the environment
and warploom.toml. What does not answer in half a second is left out.")]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Prints the script.
///
/// # Errors
/// If stdout cannot be written.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<()> {
    output::bytes(&registration(args.shell)?)
}
