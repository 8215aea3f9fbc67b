//! Usage of tenants, and its cost.

mod export;

use admin::calendar::{DAY_MS, date};
use admin::usage::kernel_text;
use admin::usage::{Books, By, Label, Query, Used};
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, header};
use bus_schemas::{KernelKey, UseTotals};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::identity::asked_tenant;
use crate::access::{Operation, Scope};
use crate::cluster::{Cluster, Shared};
use crate::http::extract::{QueryParams, Who, bounds};
use crate::prices::Prices;
use crate::problem::Problem;

/// A query of the usage.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct UsageQuery {
    /// Grouping of the rows: tenant, day, kernel, gpu, separated by commas; the default is tenant.
    #[param(example = "tenant,day")]
    by: Option<String>,
    /// Start of the interval: 2026-11-21, 2026-11-21T08:00Z, 24h or 7d ago.
    since: Option<String>,
    /// End of the interval, in the same notation.
    until: Option<String>,
    /// Only this tenant.
    tenant: Option<String>,
}

/// The sums of a row.
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
    /// The share of all core credits in the interval.
    share: f64,
    /// Number of swap-outs.
    swap_outs: u64,
    /// Bytes swapped out.
    swap_out_bytes: u64,
    /// Number of swap-ins.
    swap_ins: u64,
    /// Bytes swapped in.
    swap_in_bytes: u64,
    /// Seconds for which sessions waited for their memory.
    swap_wait_seconds: f64,
    /// GiB-seconds of swapped memory.
    swapped_credits: f64,
    /// GiB-seconds saved by storing equal bytes once.
    saved_credits: f64,
    /// Bytes that programs did not have to send.
    unsent_bytes: u64,
    /// The cost; null without a price list.
    cost: Option<f64>,
}

/// A row.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
pub(crate) struct UsageRowModel {
    /// The tenant, if rows are grouped by tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    /// The day in UTC, if rows are grouped by day.
    #[serde(skip_serializing_if = "Option::is_none")]
    day: Option<String>,
    /// The kernel, if rows are grouped by kernel: its launch in CUDA notation, else its key.
    /// `copies, memory` is work that is not a launch.
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel: Option<String>,
    /// The device, if rows are grouped by device.
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu: Option<u32>,
    #[serde(flatten)]
    used: UsedModel,
}

/// The usage.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct UsageModel {
    /// The rows, by the requested grouping.
    rows: Vec<UsageRowModel>,
    /// The sum of the rows.
    total: UsedModel,
    /// Usage that is missing from the stream although later blocks count it; it is in no row.
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
    /// Converts the request into a query of the books.
    fn read(&self, who: &Who) -> Result<Query, Problem> {
        let [since, until] = bounds(self.since.as_deref(), self.until.as_deref())?;
        let tenant = asked_tenant(&who.0, Operation::UsageRead, self.tenant.as_deref())?;
        Ok(Query {
            by: self.by()?,
            since,
            until,
            tenant,
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

/// Reads the books. A caller of one tenant does not see shares of the total.
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
        // Only the missing blocks could name the tenant, so a caller of one tenant gets no figure
        // here.
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

/// Returns the usage as comma-separated values, with the columns of `warploom usage --csv --memory`
/// and the cost.
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

/// Returns the usage in the format of FOCUS 1.0 (the FinOps Open Cost and Usage Specification): a
/// line for each tenant, day, device and kind of credit.
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
