//! Causes in words.

use comfy_table::Table;
use scheduler_leader_core::why::Cause;

use super::row::WaitRow;
use crate::table::headed;
use crate::target::duration;

/// A sentence that explains a cause, of a launch or (`idle`) of a device.
#[must_use]
pub fn sentence(cause: Cause, of: Option<&str>, idle: bool) -> String {
    let whose = of.unwrap_or("another tenant");
    let text = match cause {
        Cause::Priority => return format!("{whose}, whose priority was higher, was next or ran"),
        Cause::Share => return format!("{whose}, of the same priority, had less than its share"),
        Cause::Floor => return format!("{whose}, of a lower priority, had earned its floor"),
        Cause::Cap => return format!("{whose}'s cap was used up"),
        Cause::Bound => return format!("{whose} had as much granted as it may have"),
        Cause::Target => return format!("it was too long for the target of {whose}"),
        Cause::Window if of.is_none() => "it was next; the window was full of work on its way",
        Cause::Window => return format!("it was next; granted work of {whose} filled the window"),
        Cause::Device => return format!("it was granted; work of {whose} ran before it"),
        Cause::Own => "earlier work of its own session ran before it",
        Cause::Memory if idle => return format!("{whose}'s memory was not on the device"),
        Cause::Memory => "its memory was not on the device",
        Cause::Suspended => return format!("{whose} was suspended"),
        Cause::Hold => "all grants were held",
        Cause::Program if idle => "no session had any work",
        Cause::Program => "it was granted; its program had not sent its ops",
        Cause::Bus if idle => "the grant was on its way to the worker",
        Cause::Bus => "its grant was on its way to the worker",
        Cause::Worker => "the worker handed over, or lacked ops after a failure",
        Cause::Leader => "there was no leader, or it had yet to hear of the work",
        Cause::Empty => "no session was there",
        Cause::Unknown => "unknown: the record lacks what would tell",
    };
    text.to_owned()
}

/// Waits as a table, with their shares of a whole.
#[must_use]
pub fn table(waits: &[WaitRow], whole: u64, idle: bool) -> Table {
    let mut table = headed("waited for | whose | time> | share> | that is");
    for wait in waits {
        let share = wait.ns as f64 / (whole.max(1)) as f64 * 100.0;
        table.add_row([
            wait.cause.name().to_owned(),
            wait.of.clone().unwrap_or_else(|| "-".into()),
            duration(wait.ns),
            format!("{share:.1} %"),
            sentence(wait.cause, wait.of.as_deref(), idle),
        ]);
    }
    table
}
