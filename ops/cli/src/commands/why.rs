//! `warploom why`: explains waits and idle time.

use std::collections::BTreeMap;
use std::path::PathBuf;

use admin::Administrator;
use admin::calendar::{bounds, moment};
use admin::completion;
use admin::errors::{ErrorCode, UsageError};
use admin::output;
use admin::record::{PositionRow, Source};
use admin::settings::Settings;
use admin::table::{fitted, headed};
use admin::target::duration;
use admin::why::{
    Account, ChangeRow, DeviceDayRow, ExplainedRow, RecordBegin, Target, WaitSummary, Within,
    change_rows, change_table, device_days, explain, table,
};
use anyhow::{Result, anyhow, bail};
use bus_schemas::{GpuId, SessionId, Tenant};
use clap::Args;
use scheduler_leader_core::replay::ReplayedPosition;
use serde_json::{Value, json};

/// `warploom why`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  warploom why                         each tenant's waits, each device's idle time
  warploom why 0000000700000003        a session, as `session list` shows it
  warploom why 0000000700000003@12     the launch that was its 12th op
  warploom why 2/17                    a position, as `order show` lists it (epoch/global)
  warploom why gpu:0                   why a device was idle, by day
  warploom why --tenant chat --since 2026-11-29T14:03 --until 2026-11-29T14:04
  warploom why 0000000700000003 --each --json | jq '.waits'

With --since or --until it tells what administrators changed in that time, too, and where the record
begins if that is later.
It reads the record, and no thresholds: the times of a launch add up to what it waited, those of a
device to the time that it was idle. docs/howto/why.md says what each cause means.")]
pub struct WhyArgs {
    /// A session, a launch (SESSION@OP, or a position as `order show` lists it) or a device (gpu:N);
    /// without one: all tenants and devices
    #[arg(value_name = "SESSION|LAUNCH|GPU", add = completion::explained())]
    pub target: Option<Target>,
    /// A record that `order export` wrote (default: the cluster's record)
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Prints each position that ran, with its times, instead of a summary
    #[arg(long)]
    pub each: bool,
    /// Launches of this tenant only
    #[arg(long, add = completion::tenants())]
    pub tenant: Option<Tenant>,
    /// Start of the time to explain: 2026-11-21, 2026-11-21T08:00Z, 15m or 24h ago (default: the
    /// beginning of the record)
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// End of that time, written likewise (default: now)
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
}

impl WhyArgs {
    /// Refuses what does not select among launches.
    fn check(&self, is_timed: bool) -> Result<()> {
        let wrong = |why: &str| Err(anyhow!(UsageError(why.into())));
        match self.target {
            Some(Target::Op(..) | Target::Position(_)) if is_timed => {
                wrong("--since and --until select launches: leave them out to explain one")
            }
            Some(Target::Op(..) | Target::Position(_) | Target::Gpu(_))
                if self.tenant.is_some() =>
            {
                wrong("--tenant selects a tenant's launches, not one launch or a device")
            }
            _ => Ok(()),
        }
    }

    /// The stretch of time of the question; `None` stands for all of the record.
    fn within(&self) -> Result<Option<Within>> {
        let bounds = bounds(self.since.as_deref(), self.until.as_deref());
        let within = bounds.map_err(|(_, why)| why).and_then(Within::between);
        within.map_err(|why| anyhow!(UsageError(why)))
    }
}

/// The result of reading a record.
#[derive(Default)]
struct Read {
    /// The positions of the target that ran; kept only if they are printed one by one.
    rows: Vec<ReplayedPosition>,
    accounts: BTreeMap<String, Account>,
    asked: Account,
    /// True if a position of the target was found.
    found: bool,
    days: Vec<DeviceDayRow>,
    /// Changes of administrators in the time of the question.
    changes: Vec<ChangeRow>,
    /// The beginning of the record, if the time of the question begins before it.
    begin: Option<RecordBegin>,
}

impl Read {
    fn take(&mut self, args: &WhyArgs, row: ReplayedPosition) {
        let is_of = |tenant: &Tenant| *tenant == row.tenant;
        if args.target.as_ref().is_some_and(|target| !target.has(&row))
            || !args.tenant.as_ref().is_none_or(is_of)
        {
            return;
        }
        self.found = true;
        match args.target {
            None => {
                let account = self.accounts.entry(row.tenant.to_string());
                account.or_default().add(&row);
            }
            Some(_) => self.asked.add(&row),
        }
        let one = matches!(args.target, Some(Target::Op(..) | Target::Position(_)));
        if one || (args.each && row.timing.is_some()) {
            self.rows.push(row);
        }
    }
}

/// Prints the waits of launches and the reasons that devices were idle.
///
/// # Errors
/// `E-WHY` if the target is not in the record; errors of reading the record.
pub async fn why(args: &WhyArgs, settings: &Settings, json: bool) -> Result<()> {
    let within = args.within()?;
    args.check(within.is_some())?;
    let administrator = match &args.record {
        None => Some(Administrator::of(settings).await?),
        Some(_) => None,
    };
    let mut read = read(args, within, administrator.as_ref(), settings).await?;
    if args.tenant.is_some() && args.target.is_none() {
        read.days.clear();
        known(args, &read, administrator.as_ref()).await?;
    }
    let is_listed = args.target.is_none() && !args.each;
    let has_changes = is_listed && !read.changes.is_empty();
    if within.is_some() && !read.found && read.days.is_empty() && !has_changes {
        let begin = read.begin.map(|begin| format!("; {begin}"));
        bail!(ErrorCode::Why.failed(format!("{NOTHING}{}", begin.unwrap_or_default())));
    }
    let begin = read.begin;
    match args.target {
        None if args.each => each(&read, json),
        None => overview(read, json),
        Some(Target::Gpu(gpu)) => device(gpu, args, &read, json),
        Some(Target::Session(session)) => {
            let waits_for = now(session, administrator.as_ref()).await;
            one_session(session, args, (read, waits_for), json)
        }
        Some(target @ (Target::Op(..) | Target::Position(_))) => launch(target, &read, json),
    }?;
    match begin {
        Some(begin) if json => output::line(json!({ "record": begin })),
        Some(begin) => output::line(begin),
        None => Ok(()),
    }
}

/// The answer where nothing is found.
const NOTHING: &str = "nothing waited or ran in that time";

/// Refuses a tenant that neither the record nor the cluster knows. A removed tenant may be in the record.
async fn known(args: &WhyArgs, read: &Read, administrator: Option<&Administrator>) -> Result<()> {
    if let (Some(tenant), Some(administrator)) = (&args.tenant, administrator)
        && !read.found
    {
        administrator.known(tenant).await?;
    }
    Ok(())
}

async fn read(
    args: &WhyArgs,
    within: Option<Within>,
    administrator: Option<&Administrator>,
    settings: &Settings,
) -> Result<Read> {
    let mut read = Read::default();
    let (days, changes, begin) = match administrator {
        None => match Source::open(args.record.as_deref(), settings).await? {
            Source::Record(record) => {
                let (days, changes, begin) = record.explain(within, |row| read.take(args, row))?;
                (device_days(days, BTreeMap::new()), changes, begin)
            }
            Source::Listing(_) => bail!(ErrorCode::Why.failed(
                "a list of positions has no times: `warploom order export --out \
                 run.record` writes a record"
            )),
        },
        Some(administrator) => explain(administrator, within, |row| read.take(args, row)).await?,
    };
    read.days = days;
    read.changes = change_rows(&changes);
    read.begin = begin;
    Ok(read)
}

/// The cause of a session's current wait, if the leader knows the session.
async fn now(session: SessionId, administrator: Option<&Administrator>) -> Option<&'static str> {
    let row = administrator?.session(session).await.ok()??;
    Some(row.waits_for.name())
}

/// One line that summarizes many positions.
fn summary_line(summary: &WaitSummary) -> String {
    let untimed = match summary.untimed {
        0 => String::new(),
        many => format!("; {many} more ran without recorded times"),
    };
    format!(
        "{} positions, {} kernels, ran {}; waited {} together: half of them {} at most, 99 of 100 {}, the \
         longest {}{untimed}",
        summary.positions,
        summary.kernels,
        duration(summary.ran_ns),
        duration(summary.waited_ns),
        duration(summary.waited_p50_ns),
        duration(summary.waited_p99_ns),
        duration(summary.waited_max_ns),
    )
}

fn overview(read: Read, json: bool) -> Result<()> {
    for (tenant, account) in read.accounts {
        let summary = account.summary();
        if json {
            let mut value = serde_json::to_value(&summary)?;
            value["tenant"] = Value::from(tenant);
            output::line(value)?;
            continue;
        }
        output::line(format_args!("{tenant}: {}", summary_line(&summary)))?;
        if !summary.waits.is_empty() {
            output::line(fitted(&table(&summary.waits, summary.waited_ns, false)))?;
        }
    }
    days(&read.days, json)?;
    if !read.found && !json && !read.changes.is_empty() {
        output::line(NOTHING)?;
    }
    changes(&read.changes, json)
}

/// Number of changes in a table; earlier ones are counted.
const CHANGES: usize = 50;

/// The changes of administrators, of all tenants: a change of another tenant may be the reason.
fn changes(changes: &[ChangeRow], json: bool) -> Result<()> {
    if json {
        for change in changes {
            output::line(json!({ "change": change }))?;
        }
        return Ok(());
    }
    let earlier = changes.len().saturating_sub(CHANGES);
    if let Some(newest @ [_, ..]) = changes.get(earlier..) {
        output::line(fitted(&change_table(newest)))?;
    }
    if earlier > 0 {
        output::line(format_args!("{earlier} earlier changes: --json lists them"))?;
    }
    Ok(())
}

fn days(days: &[DeviceDayRow], json: bool) -> Result<()> {
    for day in days {
        if json {
            output::line(serde_json::to_value(day)?)?;
            continue;
        }
        let known = day.busy_ns + day.idle_ns;
        let busy = day.busy_ns as f64 / known.max(1) as f64 * 100.0;
        output::line(format_args!(
            "gpu {} on {}: ran {} ({busy:.1} %), idle {}",
            day.gpu,
            day.day,
            duration(day.busy_ns),
            duration(day.idle_ns),
        ))?;
        if !day.idle.is_empty() {
            output::line(fitted(&table(&day.idle, day.idle_ns, true)))?;
        }
    }
    Ok(())
}

fn device(gpu: GpuId, args: &WhyArgs, read: &Read, json: bool) -> Result<()> {
    let of: Vec<_> = read.days.iter().filter(|day| day.gpu == gpu).collect();
    if of.is_empty() {
        bail!(ErrorCode::Why.failed(format!(
            "the record tells nothing of gpu {gpu}: `warploom worker list` shows those there are"
        )));
    }
    if args.each {
        return each(read, json);
    }
    days(&of.into_iter().cloned().collect::<Vec<_>>(), json)
}

fn one_session(
    session: SessionId,
    args: &WhyArgs,
    (read, waits_for): (Read, Option<&'static str>),
    json: bool,
) -> Result<()> {
    if !read.found && waits_for.is_none() {
        bail!(ErrorCode::Why.failed(format!(
            "neither the record nor the leader knows of session {session}: `warploom session list` \
             shows those there are"
        )));
    }
    if args.each {
        return each(&read, json);
    }
    let summary = read.asked.summary();
    if json {
        let mut value = serde_json::to_value(&summary)?;
        value["session"] = Value::from(session.to_string());
        value["waits_for"] = json!(waits_for);
        return output::line(value);
    }
    if let Some(waits_for) = waits_for {
        output::line(format_args!("now it waits for: {waits_for}"))?;
    }
    output::line(summary_line(&summary))?;
    output::line(fitted(&table(&summary.waits, summary.waited_ns, false)))
}

fn each(read: &Read, json: bool) -> Result<()> {
    let rows = read.rows.iter().filter_map(ExplainedRow::of);
    if json {
        for row in rows {
            output::line(serde_json::to_string(&row)?)?;
        }
        return Ok(());
    }
    let mut table = headed("position | tenant | session | ops | waited> | ran> | most of it for");
    for row in rows {
        let at = &row.position;
        let most = row.waits.first();
        let of = most.and_then(|most| most.of.as_ref());
        let of = of.map_or(String::new(), |of| format!(" ({of})"));
        table.add_row([
            format!("{}/{}", at.epoch, at.global),
            at.tenant.clone(),
            at.session.clone(),
            format!("{}..{}", at.first, at.last),
            duration(row.waited_ns),
            duration(at.measured_ns.unwrap_or(0)),
            most.map_or("-".into(), |most| format!("{}{of}", most.cause.name())),
        ]);
    }
    output::line(fitted(&table))
}

fn launch(target: Target, read: &Read, json: bool) -> Result<()> {
    let row = match read.rows.as_slice() {
        [] => bail!(ErrorCode::Why.failed(format!(
            "the record has no {target} that has ended: `warploom order show` lists those there are"
        ))),
        [row] => row,
        several => {
            let those = several
                .iter()
                .map(|row| format!("{}/{}", row.epoch, row.global));
            let those: Vec<_> = those.collect();
            bail!(ErrorCode::Why.failed(format!(
                "{target} is there {} times: say one of {}",
                several.len(),
                those.join(", ")
            )));
        }
    };
    let Some(explained) = ExplainedRow::of(row) else {
        let kind = PositionRow::from(row).kind;
        bail!(ErrorCode::Why.failed(format!("{target} ({kind}) ran nothing with recorded times")));
    };
    if json {
        return output::line(serde_json::to_string(&explained)?);
    }
    let at = &explained.position;
    output::line(format_args!(
        "{}/{} on gpu {}: {} session {}, ops {} to {}, {} kernels",
        at.epoch,
        at.global,
        at.gpu,
        at.tenant,
        at.session,
        at.first,
        at.last,
        at.kernels
            .map_or("an unknown number of".into(), |it| it.to_string()),
    ))?;
    output::line(format_args!(
        "announced {} UTC; granted after {}, started after {}, {} after {}",
        moment(explained.announced_ns / 1_000_000),
        duration(explained.granted_ns - explained.announced_ns),
        duration(explained.started_ns - explained.announced_ns),
        match at.outcome {
            Some(_) => "ended",
            None => "not ended yet, last heard of",
        },
        duration(explained.ended_ns - explained.announced_ns),
    ))?;
    output::line(format_args!("waited {}:", duration(explained.waited_ns)))?;
    output::line(fitted(&table(&explained.waits, explained.waited_ns, false)))
}
