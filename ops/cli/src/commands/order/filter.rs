//! The filter of positions that several commands share.

use admin::completion;
use admin::record::PositionRow;
use clap::Args;

/// Filter of positions.
#[derive(Debug, Clone, Default, Args)]
pub struct Filter {
    /// Positions of this tenant only
    #[arg(long, add = completion::tenants())]
    pub tenant: Option<bus_schemas::Tenant>,
    /// Positions of this device only
    #[arg(long, add = completion::gpus())]
    pub gpu: Option<u32>,
    /// The first global position
    #[arg(long, value_name = "POSITION")]
    pub from: Option<u64>,
    /// The last global position
    #[arg(long, value_name = "POSITION")]
    pub to: Option<u64>,
}

impl Filter {
    /// True if a row passes the filter.
    #[must_use]
    pub fn has(&self, row: &PositionRow) -> bool {
        let tenant = self.tenant.as_ref();
        tenant.is_none_or(|tenant| tenant.as_str() == row.tenant)
            && self.gpu.is_none_or(|gpu| gpu == row.gpu)
            && self.from.is_none_or(|from| row.global >= from)
            && self.to.is_none_or(|to| row.global <= to)
    }
}
