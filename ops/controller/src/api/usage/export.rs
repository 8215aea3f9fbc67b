//! Usage as CSV files: plain, and in the format of the FinOps Open Cost and Usage Specification
//! (FOCUS) 1.0.

use admin::calendar::{DAY_MS, date};
use admin::csv;
use admin::usage::kernel_text;
use admin::usage::{Books, By, Label, MOVED, Used, in_csv};
use bus_schemas::KernelKey;

use crate::prices::Prices;

fn head(by: &By) -> &'static [&'static str] {
    match by {
        By::Tenant => &["tenant"],
        By::Day => &["day"],
        By::Kernel => &["kernel", "what"],
        By::Gpu => &["gpu"],
    }
}

fn texts(books: &Books, label: &Label) -> Vec<String> {
    match label {
        Label::Tenant(tenant) => vec![tenant.to_string()],
        Label::Day(day) => vec![date(day * DAY_MS)],
        Label::Gpu(gpu) => vec![gpu.to_string()],
        Label::Kernel(KernelKey(0)) => vec![String::new(), "copies, memory".into()],
        Label::Kernel(KernelKey::OTHER) => vec!["other".into(), "all other kernels".into()],
        Label::Kernel(key) => {
            let name = books.names.get(key).map(kernel_text);
            vec![key.to_string(), name.unwrap_or_default()]
        }
    }
}

/// The columns of `warploom usage --csv --memory`, and the cost.
pub(super) fn plain(books: &Books, by: &[By], prices: Option<&Prices>) -> String {
    let mut head: Vec<&str> = by.iter().flat_map(head).copied().collect();
    head.extend([
        "launches",
        "device_seconds",
        "core_credits",
        "vram_credits",
        "share",
    ]);
    head.extend(MOVED);
    head.extend(["cost", "currency"]);
    let mut lines = csv::line(head);
    for (labels, used) in &books.rows {
        let mut fields: Vec<_> = labels.iter().flat_map(|it| texts(books, it)).collect();
        let share = used.totals.sm_ns as f64 / books.all.sm_ns.max(1) as f64;
        fields.push(used.totals.launches.to_string());
        fields.push(format!("{:.9}", used.device_seconds()));
        fields.push(format!("{:.9}", used.core_credits()));
        fields.push(format!("{:.9}", used.vram_credits()));
        fields.push(format!("{share:.6}"));
        fields.extend(in_csv(&used.totals.moves));
        fields.push(prices.map_or_else(String::new, |it| format!("{:.9}", it.of(used))));
        fields.push(prices.map_or_else(String::new, |it| it.currency.clone()));
        lines += &csv::line(fields);
    }
    lines
}

/// The columns of FOCUS 1.0 for which data exist, and those that it requires.
const FOCUS: [&str; 33] = [
    "BilledCost",
    "BillingAccountId",
    "BillingAccountName",
    "BillingCurrency",
    "BillingPeriodEnd",
    "BillingPeriodStart",
    "ChargeCategory",
    "ChargeClass",
    "ChargeDescription",
    "ChargeFrequency",
    "ChargePeriodEnd",
    "ChargePeriodStart",
    "ConsumedQuantity",
    "ConsumedUnit",
    "ContractedCost",
    "ContractedUnitPrice",
    "EffectiveCost",
    "InvoiceIssuerName",
    "ListCost",
    "ListUnitPrice",
    "PricingCategory",
    "PricingQuantity",
    "PricingUnit",
    "ProviderName",
    "PublisherName",
    "ResourceId",
    "ResourceType",
    "ServiceCategory",
    "ServiceName",
    "SkuId",
    "SkuPriceId",
    "SubAccountId",
    "SubAccountName",
];

/// One kind of credit.
struct Sku {
    id: &'static str,
    unit: &'static str,
    description: &'static str,
    quantity: fn(&Used) -> f64,
    price: fn(&Prices) -> f64,
}

const SKUS: [Sku; 2] = [
    Sku {
        id: "core-credit",
        unit: "SM-seconds",
        description: "Multiprocessors busy",
        quantity: Used::core_credits,
        price: |prices| prices.core_credit,
    },
    Sku {
        id: "vram-credit",
        unit: "GiB-seconds",
        description: "Device memory resident",
        quantity: Used::vram_credits,
        price: |prices| prices.vram_credit,
    },
];

/// First day of the month of a day since 1970, and first day of the next month.
fn month(day: u64) -> (String, String) {
    let text = |day: u64| date(day * DAY_MS);
    let of = |day: u64| text(day)[..7].to_owned();
    let (mut first, mut next) = (day, day);
    while first > 0 && of(first - 1) == of(day) {
        first -= 1;
    }
    while of(next) == of(day) {
        next += 1;
    }
    (text(first), text(next))
}

/// Writes two lines per row: the use of multiprocessors and the use of memory. Without a price list
/// the costs are 0 and the currency is XXX, the ISO 4217 code for no currency.
pub(super) fn focus(books: &Books, cluster: &str, prices: Option<&Prices>) -> String {
    let mut lines = csv::line(FOCUS);
    for (labels, used) in &books.rows {
        let (mut tenant, mut day, mut gpu) = (String::new(), 0, 0);
        for label in labels {
            match label {
                Label::Tenant(name) => tenant = name.to_string(),
                Label::Day(number) => day = *number,
                Label::Gpu(number) => gpu = *number,
                Label::Kernel(_) => {}
            }
        }
        let resource = format!("{cluster}/gpu-{gpu}");
        for sku in &SKUS {
            let line = charge(sku, used, &tenant, day, &resource, cluster, prices);
            lines += &csv::line(line);
        }
    }
    lines
}

fn charge(
    sku: &Sku,
    used: &Used,
    tenant: &str,
    day: u64,
    resource: &str,
    cluster: &str,
    prices: Option<&Prices>,
) -> [String; FOCUS.len()] {
    let time = |day: &str| format!("{day}T00:00:00Z");
    let (month, next) = month(day);
    let (quantity, price) = ((sku.quantity)(used), prices.map_or(0.0, sku.price));
    let cost = format!("{:.12}", quantity * price);
    let (quantity, price) = (format!("{quantity:.12}"), format!("{price}"));
    let currency = prices.map_or("XXX", |prices| &prices.currency);
    [
        cost.clone(),
        cluster.into(),
        cluster.into(),
        currency.into(),
        time(&next),
        time(&month),
        "Usage".into(),
        String::new(),
        format!("{} of tenant {tenant} on {resource}", sku.description),
        "Usage-Based".into(),
        time(&date((day + 1) * DAY_MS)),
        time(&date(day * DAY_MS)),
        quantity.clone(),
        sku.unit.into(),
        cost.clone(),
        price.clone(),
        cost.clone(),
        "Warploom".into(),
        cost,
        price,
        "Standard".into(),
        quantity,
        sku.unit.into(),
        "Warploom".into(),
        "Warploom".into(),
        resource.into(),
        "GPU".into(),
        "Compute".into(),
        "Warploom".into(),
        sku.id.into(),
        sku.id.into(),
        tenant.into(),
        tenant.into(),
    ]
}

#[cfg(test)]
mod tests {
    use bus_schemas::KernelName;

    use super::*;

    /// Books of launches of kernels with names that a file must quote.
    fn books(names: &[&str]) -> Books {
        let mut books = Books::default();
        for (key, name) in (0..).zip(names) {
            let used = Used::default();
            books.rows.insert(vec![Label::Kernel(KernelKey(key))], used);
            if key > 0 {
                let name = KernelName {
                    kernel: KernelKey(key),
                    function: (*name).into(),
                    grid_dim: [8, 1, 1],
                    block_dim: [128, 1, 1],
                    shared_bytes: 0,
                    module: None,
                };
                books.names.insert(KernelKey(key), name);
            }
        }
        books
    }

    #[test]
    fn a_reader_finds_every_column_whatever_names_hold() {
        let names = ["", "f<int, 2>", "say \"x\"", "two\nlines", "=1+1"];
        let prices = Prices {
            currency: "a \"b\", c".into(),
            core_credit: 1.0,
            vram_credit: 1.0,
        };
        let text = plain(&books(&names), &[By::Kernel], Some(&prices));
        let rows = csv::rows(&text).unwrap();
        assert_eq!(rows.len(), 1 + names.len());
        assert!(
            rows.iter()
                .all(|row| row.cells.len() == rows[0].cells.len())
        );
        let what: Vec<_> = rows[1..].iter().map(|row| row.cells[1].as_str()).collect();
        assert_eq!(what[0], "copies, memory");
        for (what, name) in what.iter().zip(names).skip(1) {
            assert!(what.contains(name), "{what}");
        }
        assert!(what[4].starts_with("'="), "no formula: {}", what[4]);
        assert_eq!(rows[1].cells.last(), Some(&prices.currency));

        let text = focus(&books(&names), "a,b", Some(&prices));
        let rows = csv::rows(&text).unwrap();
        assert!(rows.iter().all(|row| row.cells.len() == FOCUS.len()));
        assert_eq!(rows[1].cells[1], "a,b");
    }

    #[test]
    fn a_month_is_from_its_first_day_to_the_next_months() {
        let day = |text: &str| admin::calendar::parse(text, 0).unwrap() / DAY_MS;
        let of = |text: &str| month(day(text));
        assert_eq!(of("2026-11-26"), ("2026-11-01".into(), "2026-12-01".into()));
        assert_eq!(of("2024-02-29"), ("2024-02-01".into(), "2024-03-01".into()));
        assert_eq!(of("2026-12-01"), ("2026-12-01".into(), "2027-01-01".into()));
    }
}
