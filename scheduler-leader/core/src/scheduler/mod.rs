//! The scheduler: a pure state machine that decides the order. `apply` dispatches; `policy/`
//! chooses the next slice.

mod apply;
mod causes;
mod commons;
mod dirty_sessions;
mod inspection;
mod memory;
mod placement;
mod recent;
mod session_page;
mod sessions;
mod shares;
mod space;
mod standing;
mod standing_grant;
mod state;
mod targets;
mod tenants;
mod view;
mod workers;

pub use apply::Scheduler;
pub(crate) use causes::WorkerMoment;
pub(crate) use dirty_sessions::DirtySession;
pub use inspection::{
    FlowInspection, Inspection, SessionInspection, TenantInspection, WorkerInspection,
};
pub use view::{FlowView, SessionView, TenantPlace, TenantView, WorkerView};
