//! What tenants used, and what it costs.

mod export;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, header};
use bus_schemas::{KernelKey, UseTotals};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use warploom_cli::calendar::{DAY_MS, date, now_ms, parse};
use warploom_cli::commands::usage::kernel_text;
use warploom_cli::usage::{Books, By, Label, Query, Used};

use super::identity::visible;
use crate::access::{Operation, Scope};
use crate::cluster::{Cluster, Shared};
use crate::http::extract::{QueryParams, Who};
use crate::prices::Prices;
use crate::problem::Problem;

/// What is asked of the usage.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct UsageQuery {
    /// How use is grouped into rows: tenant, day, kernel, gpu, with commas between them; tenant where
    /// nobody says.
    #[param(example = "tenant,day")]
    by: Option<String>,
    /// Use from then on: 2026-11-21, 2026-11-21T08:00Z, 24h or 7d ago.
    since: Option<String>,
    /// Use until then, written likewise.
    until: Option<String>,
    /// Use of this tenant only.
    tenant: Option<String>,
}

/// What a row sums up.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
pub(crate) struct UsedModel {
    /// Launches.
    launches: u64,
    /// Seconds of device time.
    device_seconds: f64,
    /// SM-seconds.
    core_credits: f64,
    /// GiB-seconds.
    vram_credits: f64,
    /// The share of all core credits of the interval.
    share: f64,
    /// Times that memory was swapped out.
    swap_outs: u64,
    /// Bytes that were.
    swap_out_bytes: u64,
    /// Times that memory came back.
    swap_ins: u64,
    /// Bytes that did.
    swap_in_bytes: u64,
    /// Seconds that sessions waited for their memory.
    swap_wait_seconds: f64,
    /// GiB-seconds swapped out.
    swapped_credits: f64,
    /// GiB-seconds that were stored once for several.
    saved_credits: f64,
    /// Bytes that programs need not send.
    unsent_bytes: u64,
    /// What it costs; null without a price list.
    cost: Option<f64>,
}

/// A row.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
pub(crate) struct UsageRowModel {
    /// The tenant, where rows are told apart by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    /// The day in UTC, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    day: Option<String>,
    /// The kernel likewise: as CUDA writes a launch, else its key; `copies, memory` is what is no launch.
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel: Option<String>,
    /// The device, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu: Option<u32>,
    #[serde(flatten)]
    used: UsedModel,
}

/// The usage.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct UsageModel {
    /// By what is asked.
    rows: Vec<UsageRowModel>,
    /// The sum of the rows.
    total: UsedModel,
    /// What the stream lacks although later blocks say that it was used: it is in no row.
    missing: UsedModel,
    /// The price list.
    prices: Option<Prices>,
}

impl UsedModel {
    fn of(used: &Used, all: &UseTotals, prices: Option<&Prices>) -> Self {
        let (totals, moves) = (&used.totals, &used.totals.moves);
        let credits = |byte_ms: u64| byte_ms as f64 / 1e3 / f64::from(1 << 30);
        Self {
            launches: totals.launches,
            device_seconds: used.device_seconds(),
            core_credits: used.core_credits(),
            vram_credits: used.vram_credits(),
            share: totals.sm_ns as f64 / all.sm_ns.max(1) as f64,
            swap_outs: moves.outs,
            swap_out_bytes: moves.out_bytes,
            swap_ins: moves.ins,
            swap_in_bytes: moves.in_bytes,
            swap_wait_seconds: moves.waited_ns as f64 / 1e9,
            swapped_credits: credits(moves.swapped_byte_ms),
            saved_credits: credits(moves.saved_byte_ms),
            unsent_bytes: moves.unsent_bytes,
            cost: prices.map(|prices| prices.of(used)),
        }
    }
}

impl UsageQuery {
    /// As the books are asked.
    fn read(&self, who: &Who) -> Result<Query, Problem> {
        let now = now_ms();
        let time = |name: &str, text: &Option<String>| {
            let read = text.as_ref().map(|text| parse(text, now)).transpose();
            read.map_err(|why| Problem::malformed(format!("query: {name}: {why}")))
        };
        let tenant = self.tenant.as_deref().map(str::parse).transpose();
        let tenant =
            tenant.map_err(|error| Problem::malformed(format!("query: tenant: {error}")))?;
        if let Some(tenant) = &tenant {
            visible(&who.0, tenant)?;
        }
        let own = match who.0.scope(Operation::UsageRead) {
            Scope::All => tenant,
            _ => who.0.tenant.clone(),
        };
        Ok(Query {
            by: self.by()?,
            since: time("since", &self.since)?,
            until: time("until", &self.until)?,
            tenant: own,
        })
    }

    fn by(&self) -> Result<Vec<By>, Problem> {
        let names = self.by.as_deref().unwrap_or("tenant").split(',');
        let by = names.map(|name| match name.trim() {
            "tenant" => Ok(By::Tenant),
            "day" => Ok(By::Day),
            "kernel" => Ok(By::Kernel),
            "gpu" => Ok(By::Gpu),
            other => {
                let why = format!("query: by: {other:?} is none of tenant, day, kernel, gpu");
                Err(Problem::malformed(why))
            }
        });
        by.collect()
    }
}

/// Reads the books; whoever is of one tenant sees no share of all.
async fn books(cluster: &Cluster, query: Query, who: &Who) -> Result<Books, Problem> {
    let _turn = cluster.reading(&who.0).await?;
    let mut books = cluster.administrator.books(query).await?;
    if who.0.scope(Operation::UsageRead) != Scope::All {
        books.all = books.sum().totals;
    }
    Ok(books)
}

fn row(books: &Books, labels: &[Label], used: UsedModel) -> UsageRowModel {
    let mut row = UsageRowModel {
        used,
        ..UsageRowModel::default()
    };
    for label in labels {
        match label {
            Label::Tenant(tenant) => row.tenant = Some(tenant.to_string()),
            Label::Day(day) => row.day = Some(date(day * DAY_MS)),
            Label::Gpu(gpu) => row.gpu = Some(*gpu),
            Label::Kernel(KernelKey(0)) => row.kernel = Some("copies, memory".into()),
            Label::Kernel(KernelKey::OTHER) => row.kernel = Some("all other kernels".into()),
            Label::Kernel(key) => {
                let name = books.names.get(key).map(kernel_text);
                row.kernel = Some(name.unwrap_or_else(|| key.to_string()));
            }
        }
    }
    row
}

/// Shows what tenants used.
#[utoipa::path(get, path = "/api/v1/usage", tag = "usage", params(UsageQuery),
    extensions(("x-operation" = json!("usage.read"))),
    responses((status = 200, body = UsageModel)))]
pub(crate) async fn usage(
    State(cluster): State<Shared>,
    who: Who,
    QueryParams(asked): QueryParams<UsageQuery>,
) -> Result<Json<UsageModel>, Problem> {
    let books = books(&cluster, asked.read(&who)?, &who).await?;
    let prices = cluster.prices.as_ref();
    let used = |used: &Used| UsedModel::of(used, &books.all, prices);
    let rows = books.rows.iter();
    let rows = rows.map(|(labels, it)| row(&books, labels, used(it)));
    let missing = match who.0.scope(Operation::UsageRead) {
        Scope::All => books.missing()?,
        // Whose it was, the blocks would say that are missing.
        _ => UseTotals::default(),
    };
    let missing = Used {
        totals: missing,
        ..Used::default()
    };
    Ok(Json(UsageModel {
        rows: rows.collect(),
        total: used(&books.sum()),
        missing: used(&missing),
        prices: prices.cloned(),
    }))
}

/// A file of comma-separated values.
type Csv = ([(HeaderName, HeaderValue); 2], String);

fn csv(name: &'static str, text: String) -> Csv {
    let kind = HeaderValue::from_static("text/csv; charset=utf-8");
    let disposition = HeaderValue::from_static(name);
    (
        [
            (header::CONTENT_TYPE, kind),
            (header::CONTENT_DISPOSITION, disposition),
        ],
        text,
    )
}

/// The usage as comma-separated values, with the columns of `warploom usage --csv --memory` and the cost.
#[utoipa::path(get, path = "/api/v1/usage.csv", tag = "usage", params(UsageQuery),
    extensions(("x-operation" = json!("usage.read"))),
    responses((status = 200, body = String, content_type = "text/csv")))]
pub(crate) async fn usage_csv(
    State(cluster): State<Shared>,
    who: Who,
    QueryParams(asked): QueryParams<UsageQuery>,
) -> Result<Csv, Problem> {
    let query = asked.read(&who)?;
    let by = query.by.clone();
    let books = books(&cluster, query, &who).await?;
    let text = export::plain(&books, &by, cluster.prices.as_ref());
    Ok(csv("attachment; filename=\"usage.csv\"", text))
}

/// The usage as FOCUS 1.0 (the FinOps Open Cost and Usage Specification): a line for each tenant, day,
/// device and kind of credit.
#[utoipa::path(get, path = "/api/v1/usage.focus.csv", tag = "usage", params(UsageQuery),
    extensions(("x-operation" = json!("usage.read"))),
    responses((status = 200, body = String, content_type = "text/csv")))]
pub(crate) async fn usage_focus(
    State(cluster): State<Shared>,
    who: Who,
    QueryParams(asked): QueryParams<UsageQuery>,
) -> Result<Csv, Problem> {
    let query = Query {
        by: vec![By::Tenant, By::Day, By::Gpu],
        ..asked.read(&who)?
    };
    let books = books(&cluster, query, &who).await?;
    let name = cluster.administrator.subjects().cluster().to_string();
    let text = export::focus(&books, &name, cluster.prices.as_ref());
    Ok(csv("attachment; filename=\"usage.focus.csv\"", text))
}
