//! Reasons why no session is opened, with a remedy, for people.

use bus_schemas::{Code, Failure, Tenant};

use crate::effect::TenantShare;

/// The reason why the order has no place for a request.
#[derive(Debug, Clone, Copy)]
pub(in crate::leader) struct Refused {
    pub(in crate::leader) code: Code,
    /// The tenant's use of its limit, if that limit is the reason.
    pub(in crate::leader) share: Option<TenantShare>,
}

impl Refused {
    /// The refusal without a search for a place: there is no worker.
    pub(super) const NO_WORKER: Self = Self {
        code: Code::NoWorker,
        share: None,
    };

    /// The failure that the client is told.
    pub(in crate::leader) fn failure(self, tenant: &Tenant) -> Failure {
        let detail = match (self.code, self.share) {
            (Code::SessionLimit, Some(share)) => sessions(tenant, share),
            (Code::AddressLimit, Some(share)) => addresses(tenant, share),
            (code, _) => plain(code, tenant),
        };
        Failure::new(self.code, detail)
    }
}

fn sessions(tenant: &Tenant, share: TenantShare) -> String {
    let TenantShare {
        used,
        wanted,
        limit,
    } = share;
    format!(
        "tenant {tenant} has {used} sessions of the {limit} it may have, and asks for {wanted} more: \
         close some, or raise the limit with `warploom tenant set {tenant} --sessions N`"
    )
}

fn addresses(tenant: &Tenant, share: TenantShare) -> String {
    let gib = |bytes: u64| bytes.div_ceil(1 << 30);
    let (used, wanted, limit) = (gib(share.used), gib(share.wanted), share.limit >> 30);
    format!(
        "the sessions of tenant {tenant} have {used} GiB of the {limit} GiB of device addresses that \
         they may have on a worker, and one more takes {wanted} GiB: close some, lower the tenant's \
         quota, or raise the limit with `warploom tenant set {tenant} --addresses SIZE`"
    )
}

fn plain(code: Code, tenant: &Tenant) -> String {
    match code {
        Code::UnknownTenant => format!("there is no tenant {tenant}: create it first"),
        Code::SessionLimit => {
            "this leader has opened as many sessions as it can: its successor opens more".to_owned()
        }
        Code::Suspended => format!(
            "tenant {tenant} is suspended and gets no sessions: `warploom tenant resume {tenant}` ends \
             that"
        ),
        Code::NoWorker => "no worker is there that takes sessions".to_owned(),
        Code::NoGroup => format!(
            "no worker is there of a group that tenant {tenant} may use: start one, or bind the \
             tenant to another group"
        ),
        Code::Occupied => format!(
            "the workers that tenant {tenant} may use take one tenant at a time, and others have \
             them"
        ),
        Code::NoAddresses => "the workers have no addresses left for a session".to_owned(),
        Code::MemoryFull => "the workers have no memory left".to_owned(),
        Code::TooFewWorkers => "each device is another worker's, and there are too few".to_owned(),
        _ => "the session cannot be opened".to_owned(),
    }
}
