//! `warploom usage`: shows each tenant's usage.

use admin::calendar::{DAY_MS, bounds, date};
use admin::csv;
use admin::errors::UsageError;
use admin::memory;
use admin::output;
use admin::settings::Settings;
use admin::table::{fitted, headed};
use admin::usage::{self, Books, By, Label, MOVED, MOVED_HEAD, Query, Unsaid, Used, kernel_text};
use admin::{Administrator, DeviceMemory};
use anyhow::{Result, anyhow};
use bus_schemas::{KernelKey, Tenant};
use clap::Args;
use comfy_table::Table;
use scheduler_leader_core::replay::ReportedWork;
use serde_json::{Map, Value, json};

/// `warploom usage`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  warploom usage
  warploom usage --by tenant,day --since 7d --csv > week.csv
  warploom usage --by kernel --tenant train --since 2026-11-21T08:00Z
  warploom usage --json | jq .core_credits
  warploom usage --by tenant,day --memory --csv

A core credit is one SM busy for a second, a VRAM credit one GiB resident for a second
(docs/reference/metering.md). Times are UTC.")]
pub struct UsageArgs {
    /// Grouping of usage into rows: one or several of these, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "tenant", value_enum)]
    pub by: Vec<admin::usage::By>,
    /// Start of the interval: 2026-11-21, 2026-11-21T08:00Z, 24h or 7d ago (default: the oldest
    /// usage)
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// End of the interval, written likewise (default: now)
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
    /// Usage of this tenant only
    #[arg(long, add = admin::completion::tenants())]
    pub tenant: Option<bus_schemas::Tenant>,
    /// Also shows memory: swapped out, swapped in, waited for, saved by sharing, not sent; as more
    /// columns in CSV and as a second table in text. JSON always has it, and text has it anyway if
    /// any value is not zero
    #[arg(long)]
    pub memory: bool,
    /// Prints CSV
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
}

/// Prints the usage.
///
/// # Errors
/// [`UsageError`] for invalid times, [`admin::errors::Unreachable`] without a cluster; an error if the
/// usage blocks do not add up.
pub async fn usage(args: &UsageArgs, settings: &Settings, json: bool) -> Result<()> {
    let bounds = bounds(args.since.as_deref(), args.until.as_deref());
    let [since, until] = bounds.map_err(|(_, why)| anyhow!(UsageError(why)))?;
    let query = Query {
        by: args.by.clone(),
        since,
        until,
        tenant: args.tenant.clone(),
    };
    let administrator = Administrator::of(settings).await?;
    let books = administrator.books(query).await?;
    // A removed tenant may have usage.
    if let Some(tenant) = args.tenant.as_ref().filter(|_| books.rows.is_empty()) {
        administrator.known(tenant).await?;
    }
    let unsaid = administrator.unsaid(&books).await;
    if json {
        let memory = held_now(&administrator).await;
        print_json(args, &books, unsaid.as_deref().ok(), memory.as_deref().ok())?;
    } else if args.csv {
        print_csv(args, &books)?;
        remarks(&books, &unsaid)?.iter().for_each(output::note);
    } else {
        output::line(fitted(&table(args, &books)))?;
        if let Some(moved) = moved_table(args, &books) {
            output::line(format_args!("memory beside:\n{}", fitted(&moved)))?;
        }
        for remark in remarks(&books, &unsaid)? {
            output::line(remark)?;
        }
        match held_now(&administrator).await {
            Ok(memory) => {
                let memory = memory::table(&memory, args.tenant.as_ref());
                output::line(format_args!("held now:\n{}", fitted(&memory)))?;
            }
            Err(error) => output::line(format_args!("what is held now is not known: {error:#}"))?,
        }
    }
    Ok(())
}

/// The current use of the devices' memory. The leader knows the live workers.
async fn held_now(administrator: &Administrator) -> Result<Vec<DeviceMemory>> {
    let status = administrator.status(administrator.glance()).await?;
    Ok(administrator.memory(&status).await)
}

fn share(books: &Books, used: &Used) -> f64 {
    match books.all.sm_ns {
        0 => 0.0,
        all => used.totals.sm_ns as f64 / all as f64,
    }
}

/// A label for people; a kernel key also gives the kernel's name.
fn texts(books: &Books, label: &Label) -> Vec<String> {
    match label {
        Label::Tenant(tenant) => vec![tenant.to_string()],
        Label::Day(day) => vec![date(day * DAY_MS)],
        Label::Gpu(gpu) => vec![gpu.to_string()],
        Label::Kernel(KernelKey(0)) => vec!["-".into(), "copies, memory".into()],
        Label::Kernel(KernelKey::OTHER) => vec!["other".into(), "all other kernels".into()],
        Label::Kernel(key) => {
            let name = books.names.get(key).map_or_else(String::new, kernel_text);
            vec![key.to_string(), name]
        }
    }
}

fn heads(by: &[By]) -> Vec<&'static str> {
    let head = |by: &By| match by {
        By::Tenant => vec!["tenant"],
        By::Day => vec!["day"],
        By::Kernel => vec!["kernel", "what"],
        By::Gpu => vec!["gpu"],
    };
    by.iter().flat_map(head).collect()
}

/// Names of the counted values, in CSV and JSON.
const COUNTED: [&str; 5] = [
    "launches",
    "device_seconds",
    "core_credits",
    "vram_credits",
    "share",
];

fn table(args: &UsageArgs, books: &Books) -> Table {
    let mut head = heads(&args.by);
    let labels = head.len();
    head.extend([
        "launches>",
        "device s>",
        "core credits>",
        "VRAM credits>",
        "share>",
    ]);
    if args.by.contains(&By::Kernel) {
        head.push("us: least, mean, most>");
    }
    let mut table = headed(&head.join("|"));
    let mut add = |mut cells: Vec<String>, used: &Used, spread: bool| {
        cells.push(used.totals.launches.to_string());
        cells.push(format!("{:.3}", used.device_seconds()));
        cells.push(format!("{:.3}", used.core_credits()));
        cells.push(format!("{:.4}", used.vram_credits()));
        cells.push(format!("{:.1} %", share(books, used) * 100.0));
        if spread && used.totals.launches > 0 {
            let us = |ns: u64| ns as f64 / 1e3;
            let mean = us(used.totals.device_ns) / used.totals.launches as f64;
            let (least, most) = (us(used.least_ns), us(used.most_ns));
            cells.push(format!("{least:.1}, {mean:.1}, {most:.1}"));
        }
        table.add_row(cells);
    };
    for (row, used) in &books.rows {
        let labels = row.iter().flat_map(|label| texts(books, label));
        add(labels.collect(), used, args.by.contains(&By::Kernel));
    }
    let mut total = vec![String::new(); labels];
    if let Some(first) = total.first_mut() {
        "total".clone_into(first);
    }
    add(total, &books.sum(), false);
    table
}

/// A table of memory moves: rows with any, and their sum. `None` if there are none and `--memory`
/// is not given.
fn moved_table(args: &UsageArgs, books: &Books) -> Option<Table> {
    let sum = books.sum().totals.moves;
    if sum.is_zero() && !args.memory {
        return None;
    }
    let mut head = heads(&args.by);
    let labels = head.len();
    head.extend(MOVED_HEAD);
    let mut table = headed(&head.join("|"));
    for (row, used) in &books.rows {
        if !used.totals.moves.is_zero() {
            let labels = row.iter().flat_map(|label| texts(books, label));
            table.add_row(labels.chain(usage::in_table(&used.totals.moves)));
        }
    }
    let mut total = vec![String::new(); labels];
    if let Some(first) = total.first_mut() {
        "total".clone_into(first);
    }
    table.add_row(total.into_iter().chain(usage::in_table(&sum)));
    Some(table)
}

/// Notes for people beside the numbers.
fn remarks(books: &Books, unsaid: &Result<Vec<Unsaid>>) -> Result<Vec<String>> {
    let mut remarks = Vec::new();
    let missing = books.missing()?;
    if !missing.is_zero() {
        let used = Used {
            totals: missing,
            ..Used::default()
        };
        remarks.push(format!(
            "the stream lacks blocks: {} launches, {:.3} core credits and {:.4} VRAM credits are in none \
             of the rows",
            missing.launches,
            used.core_credits(),
            used.vram_credits()
        ));
    }
    remarks.extend(usage::remark(&missing.moves));
    match unsaid {
        Err(error) => remarks.push(format!(
            "whether a worker ended without its last block is not known: {error:#}"
        )),
        Ok(unsaid) => remarks.extend(unsaid.iter().filter_map(said_of)),
    }
    Ok(remarks)
}

/// A note on a worker that ended without its last block; `None` if its blocks lack nothing.
fn said_of(unsaid: &Unsaid) -> Option<String> {
    let what = match &unsaid.loss {
        None => "how much is in no row is not known: the record does not replay".into(),
        Some(loss) if loss.sum().is_zero() && loss.unrecorded == 0 => return None,
        Some(loss) => {
            let amount = |told: &ReportedWork| {
                let ms = told.device_ns as f64 / 1e6;
                let unknown = match told.unknown {
                    0 => String::new(),
                    ops => format!(" and {ops} ops of unknown kind"),
                };
                format!(
                    "{ms:.3} ms of device time in {} launches{unknown}",
                    told.launches
                )
            };
            let tenants = loss.tenants.iter().map(|(tenant, told)| {
                let whose = tenant.as_ref().map_or("unknown", Tenant::as_str);
                format!("{whose}: {}", amount(told))
            });
            let tenants: Vec<_> = tenants.collect();
            let whose = match &tenants[..] {
                [] => String::new(),
                _ => format!(" ({})", tenants.join("; ")),
            };
            let died = match loss.unrecorded {
                0 => String::new(),
                reports => format!("; {reports} more reports went with a leader"),
            };
            let sum = amount(&loss.sum());
            format!("{sum} that it reported done are in no row{whose}{died}")
        }
    };
    let (worker, gpu) = (unsaid.incarnation, unsaid.gpu);
    Some(format!(
        "worker {worker} of gpu {gpu} ended without its last block: {what}"
    ))
}

/// A loss as JSON; unknown fields are left out.
fn unsaid_value(unsaid: &Unsaid) -> Value {
    let told = |told: &ReportedWork| {
        json!({
            "device_ns": told.device_ns,
            "launches": told.launches,
            "unknown_ops": told.unknown,
        })
    };
    let mut value = json!({"worker": unsaid.incarnation.to_string(), "gpu": unsaid.gpu});
    let Some((loss, object)) = unsaid.loss.as_ref().zip(value.as_object_mut()) else {
        return value;
    };
    if let Value::Object(sum) = told(&loss.sum()) {
        object.extend(sum);
    }
    object.insert("unrecorded_reports".into(), loss.unrecorded.into());
    let tenants = loss.tenants.iter().map(|(tenant, it)| {
        let mut row = told(it);
        row["tenant"] = json!(tenant.as_ref().map(Tenant::as_str));
        row
    });
    object.insert("tenants".into(), tenants.collect());
    value
}

fn print_csv(args: &UsageArgs, books: &Books) -> Result<()> {
    let mut head = heads(&args.by);
    head.extend(COUNTED);
    if args.memory {
        head.extend(MOVED);
    }
    output::bytes(csv::line(head).as_bytes())?;
    for (row, used) in &books.rows {
        let labels = row.iter().flat_map(|label| texts(books, label));
        let mut fields: Vec<_> = labels.collect();
        fields.push(used.totals.launches.to_string());
        fields.push(format!("{:.9}", used.device_seconds()));
        fields.push(format!("{:.9}", used.core_credits()));
        fields.push(format!("{:.9}", used.vram_credits()));
        fields.push(format!("{:.6}", share(books, used)));
        if args.memory {
            fields.extend(usage::in_csv(&used.totals.moves));
        }
        output::bytes(csv::line(fields).as_bytes())?;
    }
    Ok(())
}

fn counted(books: &Books, used: &Used) -> Map<String, Value> {
    let values = [
        json!(used.totals.launches),
        json!(used.device_seconds()),
        json!(used.core_credits()),
        json!(used.vram_credits()),
        json!(share(books, used)),
    ];
    let moves = usage::in_json(&used.totals.moves);
    let names = COUNTED.into_iter().chain(MOVED).map(str::to_owned);
    names.zip(values.into_iter().chain(moves)).collect()
}

fn print_json(
    args: &UsageArgs,
    books: &Books,
    unsaid: Option<&[Unsaid]>,
    memory: Option<&[DeviceMemory]>,
) -> Result<()> {
    let heads = heads(&args.by);
    for (row, used) in &books.rows {
        let labels = row.iter().flat_map(|label| texts(books, label));
        let mut object = counted(books, used);
        for (head, text) in heads.iter().zip(labels) {
            object.insert((*head).into(), text.into());
        }
        object.insert("least_ns".into(), used.least_ns.into());
        object.insert("most_ns".into(), used.most_ns.into());
        output::line(Value::Object(object))?;
    }
    let missing = Used {
        totals: books.missing()?,
        ..Used::default()
    };
    let unsaid = unsaid.map(|unsaid| unsaid.iter().map(unsaid_value).collect::<Vec<_>>());
    let memory = memory.map(|memory| memory::as_json(memory, args.tenant.as_ref()));
    output::line(json!({
        "total": counted(books, &books.sum()),
        "missing": counted(books, &missing),
        "ended_without_last_block": unsaid,
        "memory": memory,
    }))
}
