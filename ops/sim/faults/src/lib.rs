//! The whole cluster in one thread. Leaders, workers and clients are the real cores in thin shells, on an
//! in-memory bus and store. These fail in every way that the protocol must survive. Everything is drawn
//! from one seed, and a failing seed replays exactly. `README.md` says what is modelled and what is not.
//!
//! ```
//! let report = sim_faults::run(7, &sim_faults::Options::default()).map_err(|f| f.to_string())?;
//! assert!(report.counts.ops > 0);
//! # Ok::<(), String>(())
//! ```

mod administrator;
mod asking;
mod campaign;
mod check;
pub mod coverage;
mod device;
mod device_exports;
mod epochs;
mod exhaustive;
mod exporting;
mod fault_points;
mod faults;
mod hostile;
mod jobs;
mod memory;
mod mutants;
mod offered_copies;
mod offering;
mod parts;
mod placement_scenes;
mod program;
mod record;
mod run;
mod scene;
mod script;
mod script_syntax;
mod session;
mod shared_memory;
mod short_sessions;
mod shrink;
mod trace;
mod waits;
mod watch;
mod wire;

pub use campaign::{Campaign, CampaignOutcome, Failed, Totals, campaign};
pub use check::Violation;
pub use faults::Troubles;
pub use mutants::Mutant;
pub use run::{Counts, Options, RunFailure, RunReport, Tracing, play, run};
pub use scene::Scene;
pub use script::{Script, ScriptError};
pub use shrink::{Shrunk, shrink};
