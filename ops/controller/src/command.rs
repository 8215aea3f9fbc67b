//! The command `warploom controller`, with its links and tokens.

use admin::Administrator;
use admin::calendar::moment;
use admin::completion::{self, Candidate};
use admin::errors::{Unreachable, UsageError};
use admin::output;
use admin::settings::Settings;
use admin::table::{fitted, headed};
use anyhow::{Result, bail};
use bus_schemas::Tenant;
use clap::{Args, Subcommand};
use serde_json::json;

use crate::access::{AccessStore, Operation, Role};
use crate::api::tokens::{MadeTokenModel, NewTokenModel};
use crate::presence;
use crate::problem::Problem;
use crate::run::link as login;

/// `warploom controller`.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  warploom controller                                 on 127.0.0.1, until Ctrl-C
  warploom controller --set controller.listen=0.0.0.0:443 \\
      --set controller.tls_cert=cert.pem --set controller.tls_key=key.pem
  warploom controller link                            a link that logs a browser in, once
  warploom controller token create ci --role viewer --days 7

`warploom up` starts one. docs/reference/api.md has the operations and who may do which."
)]
pub struct ControllerArgs {
    /// Command for the cluster's controllers, in place of running one
    #[command(subcommand)]
    command: Option<ControllerCommand>,
    /// The folder of a broker that `up` started, which gives tenants their logins
    #[arg(long, value_name = "DIR", hide = true)]
    broker_dir: Option<std::path::PathBuf>,
    /// Reads the page's files from this folder on each request, for development of the page
    #[arg(long, value_name = "DIR", hide = true)]
    page: Option<std::path::PathBuf>,
}

#[derive(Debug, Subcommand)]
enum ControllerCommand {
    /// Prints a link that logs a browser on the controller's host in as an operator, once
    #[command(after_help = "\
Examples:
  warploom controller link
  warploom controller link --json | jq -r .link

It is good for ten minutes, and the login lasts twelve hours.")]
    Link,
    /// Makes, lists and revokes tokens for programs and people
    #[command(subcommand)]
    Token(TokenCommand),
    /// Prints the interface's document: OpenAPI 3.1
    #[command(after_help = "\
Examples:
  warploom controller openapi > openapi.json")]
    Openapi,
}

#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  warploom controller token create ci --role viewer
  warploom controller token list
  warploom controller token revoke 0123456789abcdef")]
enum TokenCommand {
    /// Makes a token and prints its secret, which is shown only once
    Create(TokenArgs),
    /// Lists tokens, without their secrets
    #[command(after_help = "\
Examples:
  warploom controller token list
  warploom controller token list --json")]
    List,
    /// Revokes a token: it is refused within a second
    #[command(after_help = "\
Examples:
  warploom controller token revoke 0123456789abcdef")]
    Revoke {
        /// Its id
        #[arg(add = completion::live(tokens))]
        id: String,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  warploom controller token create ci --role viewer --days 7
  warploom controller token create chat-team --role tenant-admin --tenant chat
  warploom controller token create drainer --role operator --operation workers.read \\
      --operation workers.drain
  curl -H \"Authorization: Bearer $TOKEN\" http://127.0.0.1:7070/api/v1/tenants")]
struct TokenArgs {
    /// Its name, for people
    name: String,
    /// Its role
    #[arg(long, value_enum, default_value = "viewer")]
    role: Role,
    /// The tenant of a tenant-admin
    #[arg(long, add = completion::tenants())]
    tenant: Option<Tenant>,
    /// Narrows it to this operation; repeated, to any of them
    #[arg(long = "operation", value_name = "NAME", value_parser = operation, add = completion::listed(operations))]
    operations: Vec<Operation>,
    /// Days that it lasts, 1 to 366
    #[arg(long, default_value_t = crate::api::tokens::DAYS)]
    days: u32,
}

fn operation(text: &str) -> Result<Operation, String> {
    let found = Operation::ALL.iter().find(|it| it.name() == text);
    found.copied().ok_or_else(|| {
        let all: Vec<_> = Operation::ALL.iter().map(|it| it.name()).collect();
        format!("it is none of {}", all.join(", "))
    })
}

/// Completion candidates: the operations.
fn operations() -> Vec<Candidate> {
    let all = Operation::ALL.iter();
    all.map(|it| Candidate::new(it.name(), "")).collect()
}

/// Completion candidates: the existing tokens, with their names.
async fn tokens(administrator: Administrator) -> Result<Vec<Candidate>> {
    let access = AccessStore::open(&administrator).await.map_err(told)?;
    let tokens = access.tokens().await.map_err(told)?.into_iter();
    Ok(tokens
        .map(|(id, record)| Candidate::new(id, format!("{}, {}", record.name, record.role.name())))
        .collect())
}

/// Converts a problem into an error of the command line.
fn told(problem: Problem) -> anyhow::Error {
    let text = problem.detail().to_owned();
    match problem.status().as_u16() {
        503 => Unreachable(text).into(),
        400 | 404 | 422 => UsageError(text).into(),
        _ => anyhow::anyhow!("{}: {text}", problem.code()),
    }
}

/// Runs a controller, or a command for existing controllers.
///
/// # Errors
/// If it cannot start; [`Unreachable`] without a cluster.
pub fn controller(args: &ControllerArgs, settings: &Settings, json: bool) -> Result<()> {
    let Some(command) = &args.command else {
        let folders = crate::run::Folders {
            broker: args.broker_dir.clone(),
            page: args.page.clone(),
        };
        return crate::run::role(settings, folders, json);
    };
    admin::block_on(async {
        if let ControllerCommand::Openapi = command {
            let text = serde_json::to_string_pretty(&crate::router::document())?;
            return output::line(text);
        }
        let administrator = Administrator::of(settings).await?;
        let access = AccessStore::open(&administrator).await.map_err(told)?;
        match command {
            ControllerCommand::Link => link(&access, json).await,
            ControllerCommand::Token(command) => token(command, &access, json).await,
            ControllerCommand::Openapi => Ok(()),
        }
    })
}

async fn link(access: &AccessStore, json: bool) -> Result<()> {
    let all = presence::all(access).await.map_err(told)?;
    let Some(newest) = all.first() else {
        bail!(Unreachable(
            "no controller is there: `warploom up` starts one, and so does `warploom controller`"
                .into()
        ));
    };
    let secret = access.link().await.map_err(told)?;
    let link = login(&newest.url, &secret);
    match json {
        true => output::line(json!({"link": link})),
        false => output::line(link),
    }
}

async fn token(command: &TokenCommand, access: &AccessStore, json: bool) -> Result<()> {
    match command {
        TokenCommand::Create(args) => {
            let new = NewTokenModel {
                name: args.name.clone(),
                role: args.role,
                tenant: args.tenant.as_ref().map(ToString::to_string),
                operations: Some(args.operations.clone()).filter(|it| !it.is_empty()),
                days: Some(args.days),
            };
            tell(&new.make(access).await.map_err(told)?, json)
        }
        TokenCommand::List => list(access, json).await,
        TokenCommand::Revoke { id } => {
            match access.remove_token(id).await.map_err(told)? {
                true => {}
                false => bail!(UsageError(format!("there is no token {id:?}"))),
            }
            match json {
                true => output::line(json!({"revoked": id})),
                false => output::line(format_args!("token {id} is revoked")),
            }
        }
    }
}

fn tell(made: &MadeTokenModel, json: bool) -> Result<()> {
    if json {
        return output::line(serde_json::to_string(made)?);
    }
    let token = &made.token;
    output::note(format_args!(
        "token {} ({}) until {} UTC; its secret is told this once:",
        token.id,
        token.role.name(),
        moment(token.expires_ms)
    ));
    output::line(&made.secret)
}

async fn list(access: &AccessStore, json: bool) -> Result<()> {
    let mut table = headed("id | name | role | tenant | operations | made (UTC) | until (UTC)");
    for (id, record) in access.tokens().await.map_err(told)? {
        if json {
            output::line(json!({
                "id": id,
                "name": record.name,
                "role": record.role,
                "tenant": record.tenant,
                "operations": record.operations,
                "created_ms": record.created_ms,
                "expires_ms": record.expires_ms,
            }))?;
            continue;
        }
        let operations = record.operations.as_ref().map_or_else(
            || "all of its role".to_owned(),
            |all| {
                let names: Vec<_> = all.iter().map(|it| it.name()).collect();
                names.join(" ")
            },
        );
        let tenant = record.tenant.as_ref().map(ToString::to_string);
        table.add_row([
            id,
            record.name,
            record.role.name().into(),
            tenant.unwrap_or_default(),
            operations,
            moment(record.created_ms),
            moment(record.expires_ms),
        ]);
    }
    match json {
        true => Ok(()),
        false => output::line(fitted(&table)),
    }
}
