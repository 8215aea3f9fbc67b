//! `warploom order show`.

use std::collections::VecDeque;
use std::path::PathBuf;

use admin::Administrator;
use admin::output;
use admin::record::{Followed, PositionRow, Source, follow};
use admin::settings::Settings;
use admin::table::{fitted, headed};
use anyhow::Result;
use clap::Args;
use comfy_table::{CellAlignment, Table};

use super::filter::Filter;

/// `warploom order show`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  warploom order show --tenant chat --limit 20
  warploom order show --live                  goes on until Ctrl-C
  warploom order show run.record --gpu 1 --json")]
pub struct ShowArgs {
    /// A file that `order export` wrote (default: the cluster's record)
    pub source: Option<PathBuf>,
    /// Filter of positions.
    #[command(flatten)]
    pub filter: Filter,
    /// Number of positions to show, the last ones; 0 shows all
    #[arg(long, default_value_t = 100)]
    pub limit: usize,
    /// Shows each further position when it ends, until Ctrl-C
    #[arg(long, conflicts_with = "source")]
    pub live: bool,
}

const HEADER: [&str; 12] = [
    "gpu", "position", "epoch", "global", "tenant", "session", "prio", "ops", "kernels", "cost us",
    "outcome", "took us",
];
/// Indices of the columns of text; the others are numbers and are aligned to the right.
const TEXT: [usize; 2] = [4, 10];

/// Lists positions.
pub(super) async fn show(args: &ShowArgs, settings: &Settings, json: bool) -> Result<()> {
    if args.live {
        return live(args, settings, json).await;
    }
    let source = Source::open(args.source.as_deref(), settings).await?;
    let mut rows = source.rows()?;
    let whole = rows.len();
    rows.retain(|row| args.filter.has(row));
    let fit = rows.len();
    if args.limit > 0 {
        rows.drain(..fit.saturating_sub(args.limit));
    }
    if json {
        return rows
            .iter()
            .try_for_each(|row| output::line(serde_json::to_string(row)?));
    }
    output::line(fitted(&table(&rows)))?;
    let shown = rows.len();
    if shown < fit {
        output::line(format_args!(
            "the last {shown} of {fit} positions; --limit 0 shows all"
        ))
    } else {
        output::line(format_args!("{shown} of {whole} positions"))
    }
}

fn table(rows: &[PositionRow]) -> Table {
    let mut table = headed(&HEADER.join("|"));
    for row in rows {
        table.add_row(cells(row));
    }
    for column in (0..HEADER.len()).filter(|column| !TEXT.contains(column)) {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn cells(row: &PositionRow) -> [String; 12] {
    let us = |ns: u64| format!("{:.1}", ns as f64 / 1e3);
    let ops = match row.kind.as_str() {
        "run" => format!("{}..{}", row.first, row.last),
        other => other.to_owned(),
    };
    let adopted = if row.adopted { ", adopted" } else { "" };
    let outcome = row.outcome.as_deref().unwrap_or("-");
    [
        row.gpu.to_string(),
        row.position.to_string(),
        row.epoch.to_string(),
        row.global.to_string(),
        row.tenant.clone(),
        row.ordinal.to_string(),
        row.priority.to_string(),
        ops,
        row.kernels
            .map_or("-".to_owned(), |kernels| kernels.to_string()),
        us(row.cost_ns),
        format!("{outcome}{adopted}"),
        row.measured_ns.map_or("-".to_owned(), us),
    ]
}

/// Prints recently ended positions, then each further one when it ends.
async fn live(args: &ShowArgs, settings: &Settings, json: bool) -> Result<()> {
    let administrator = Administrator::of(settings).await?;
    let mut before: VecDeque<PositionRow> = VecDeque::new();
    let mut begun = json;
    let print = |row: &PositionRow| match json {
        true => output::line(serde_json::to_string(row)?),
        false => output::line(line(&cells(row))),
    };
    let followed = follow(&administrator, |told| {
        let Followed::Ended {
            position,
            news_of_ms,
        } = told
        else {
            return Ok(());
        };
        let row = PositionRow::from(&*position);
        if !args.filter.has(&row) {
            return Ok(());
        }
        before.push_back(row);
        if news_of_ms.is_none() {
            if before.len() > args.limit.max(1) {
                before.pop_front();
            }
            return Ok(());
        }
        if !begun {
            begun = true;
            output::line(line(&HEADER.map(str::to_owned)))?;
        }
        before.drain(..).try_for_each(|row| print(&row))
    });
    tokio::select! {
        ended = followed => ended,
        _ = tokio::signal::ctrl_c() => Ok(()),
    }
}

/// Cells at fixed positions, as the widths of later cells are not known yet.
fn line(cells: &[String; 12]) -> String {
    const WIDTHS: [usize; 12] = [3, 9, 5, 9, 12, 7, 4, 15, 7, 10, 7, 10];
    let mut line = String::new();
    for (at, (cell, width)) in cells.iter().zip(WIDTHS).enumerate() {
        let cell = match TEXT.contains(&at) {
            true => format!("{cell:<width$}"),
            false => format!("{cell:>width$}"),
        };
        line += &cell;
        line += "  ";
    }
    line.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> PositionRow {
        PositionRow {
            position: 12,
            tenant: "chat".into(),
            kind: "run".into(),
            first: 7,
            last: 90,
            kernels: Some(80),
            cost_ns: 1_234_567,
            ..PositionRow::default()
        }
    }

    #[test]
    fn a_row_says_what_is_known_and_a_dash_what_is_not() {
        let mut open = row();
        (open.kind, open.outcome) = ("open".into(), Some("ran".into()));
        (open.measured_ns, open.adopted) = (Some(500), true);
        let text = table(&[row(), open]).to_string();
        for part in ["7..90", "1234.6", " 80 ", "open", "ran, adopted", "0.5"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(text.lines().nth(3).unwrap().contains("- "), "{text}");
    }

    #[test]
    fn lines_stand_below_their_header() {
        let header = line(&HEADER.map(str::to_owned));
        let row = line(&cells(&row()));
        assert_eq!(header.find("tenant"), row.find("chat"));
        let end = |text: &str, of: &str| text.find(of).map(|at| at + of.len());
        assert_eq!(end(&header, "kernels"), end(&row, " 80"));
    }
}
