//! The command line of those who look after tenants and the cluster.

use clap::{Args, Subcommand};

/// `warploom tenant`.
#[derive(Debug, Subcommand)]
pub enum TenantCommand {
    /// Makes a tenant, with a login of its own on a broker that `up` started
    Create(TenantSetArgs),
    /// Changes a tenant's settings
    Set(TenantSetArgs),
    /// Lists tenants
    List,
}

/// `warploom tenant create` and `set`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  warploom tenant create chat --priority 0
  warploom tenant set train --priority 4 --weight 2 --quota 8GiB
  warploom tenant set train --group batch --group spare")]
pub struct TenantSetArgs {
    /// The tenant: 1 to 32 of a-z, 0-9, '-', starting with a letter
    pub tenant: bus_schemas::Tenant,
    /// 0 (highest) to 4
    #[arg(long)]
    pub priority: Option<u8>,
    /// Share within the priority, 1 to 1000
    #[arg(long)]
    pub weight: Option<u32>,
    /// Device memory per device, such as 4GiB; 0 is the device's capacity
    #[arg(long)]
    pub quota: Option<String>,
    /// Sessions at a time; 0 is the cluster's `tenant.sessions`
    #[arg(long)]
    pub sessions: Option<u32>,
    /// Device addresses of its sessions per device, such as 16TiB; 0 is the cluster's `tenant.addresses`
    #[arg(long, value_name = "SIZE")]
    pub addresses: Option<String>,
    /// What module images of its sessions may take on a worker, such as 8GiB; 0 is the cluster's
    /// `tenant.modules`
    #[arg(long, value_name = "SIZE")]
    pub modules: Option<String>,
    /// What its sessions may have staged on a worker, such as 8GiB; 0 is the cluster's `tenant.staged`
    #[arg(long, value_name = "SIZE")]
    pub staged: Option<String>,
    /// Charged work granted and not done, milliseconds; 0 is no bound
    #[arg(long, value_name = "MS")]
    pub outstanding: Option<u64>,
    /// Percent of each device's time the tenant may use at most; 0 is no cap
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    pub cap: Option<u8>,
    /// Group of workers its sessions go to; repeated, any of them
    #[arg(long = "group", value_name = "NAME")]
    pub groups: Vec<bus_schemas::Tenant>,
    /// Its sessions go to any group that is not exclusive, as at first
    #[arg(long, conflicts_with = "groups")]
    pub no_group: bool,
    /// What 99 of 100 requests are to stay within, such as 20ms (units us, ms, s); `none` takes it
    /// away. Lower priorities make room for it (docs/howto/slo.md)
    #[arg(long, value_name = "TARGET")]
    pub slo: Option<String>,
    /// Changes nothing (exit code 1) if the change means that a target cannot be met; without it, that
    /// is a warning
    #[arg(long)]
    pub strict: bool,
}

/// `warploom cluster`.
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Shows each setting, whence it came and what it does
    Show,
    /// Changes settings, all of them together or none
    #[command(after_help = "\
Examples:
  warploom cluster set window=4ms quantum=1ms
  warploom cluster set floors=0,0,0,0,10     priority 4 is left a tenth of each GPU
  warploom cluster set learn=off
  warploom cluster set window=default")]
    Set {
        /// SETTING=VALUE, or SETTING=default; `warploom cluster show` lists the settings
        #[arg(required = true, value_name = "SETTING=VALUE")]
        changes: Vec<String>,
    },
}

/// `warploom profile`.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  warploom profile list
  warploom profile show 12
  warploom profile pin            the newest version, until unpin: the order depends on nothing measured")]
pub enum ProfileCommand {
    /// Lists the versions that are kept, the last 64
    List,
    /// Shows a version's kernels
    Show {
        /// Its number or the beginning of its hash (default: the one in force)
        #[arg(value_name = "VERSION")]
        name: Option<String>,
    },
    /// Orders by a version from now on, whatever is measured
    Pin {
        /// Its number or the beginning of its hash (default: the newest)
        #[arg(value_name = "VERSION")]
        name: Option<String>,
    },
    /// Learns from what is measured again
    Unpin,
}

/// `warploom usage`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  warploom usage
  warploom usage --by tenant,day --since 7d --csv > week.csv
  warploom usage --by kernel --tenant train --since 2026-11-21T08:00Z
  warploom usage --json | jq .core_credits

A core credit is one SM busy for a second, a VRAM credit one GiB resident for a second
(docs/reference/metering.md). Times are UTC.")]
pub struct UsageArgs {
    /// What rows are told apart by: several with commas between them
    #[arg(long, value_delimiter = ',', default_value = "tenant", value_enum)]
    pub by: Vec<crate::accounts::By>,
    /// From then on: 2026-11-21, 2026-11-21T08:00Z, 24h or 7d ago (default: all there is)
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Until then, likewise (default: now)
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
    /// Of this tenant only
    #[arg(long)]
    pub tenant: Option<bus_schemas::Tenant>,
    /// Prints CSV
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
}
