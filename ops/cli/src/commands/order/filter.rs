//! The choice of positions, of several commands.

use clap::Args;

use crate::record::PositionRow;

/// Which positions.
#[derive(Debug, Clone, Default, Args)]
pub struct Filter {
    /// Only this tenant's
    #[arg(long)]
    pub tenant: Option<bus_schemas::Tenant>,
    /// Only this device's
    #[arg(long)]
    pub gpu: Option<u32>,
    /// From this global position on
    #[arg(long, value_name = "POSITION")]
    pub from: Option<u64>,
    /// Through this global position
    #[arg(long, value_name = "POSITION")]
    pub to: Option<u64>,
}

impl Filter {
    /// Whether a row is one of them.
    #[must_use]
    pub fn has(&self, row: &PositionRow) -> bool {
        let tenant = self.tenant.as_ref();
        tenant.is_none_or(|tenant| tenant.as_str() == row.tenant)
            && self.gpu.is_none_or(|gpu| gpu == row.gpu)
            && self.from.is_none_or(|from| row.global >= from)
            && self.to.is_none_or(|to| row.global <= to)
    }
}
