//! Waits, as the interface presents them: without the names of tenants that the caller may not see.

use std::collections::BTreeMap;

use admin::why::WaitRow;
use bus_schemas::Tenant;
use scheduler_leader_core::why::{Cause, Wait};
use serde::Serialize;
use utoipa::ToSchema;

use crate::access::Identity;

/// Maximum number of waits listed one by one, the longest; the others are summed by cause.
const TOLD: usize = 8;

/// A wait and its cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct WaitModel {
    /// The cause: docs/howto/why.md lists them.
    #[schema(value_type = String, example = "priority")]
    pub(crate) cause: Cause,
    /// The tenant that caused the wait. Null if no tenant caused it, or if the caller may not see
    /// that tenant.
    #[schema(value_type = Option<String>)]
    pub(crate) of: Option<Tenant>,
    /// Nanoseconds.
    pub(crate) ns: u64,
}

/// All waits of a replayed position.
pub(crate) fn all(waits: &[Wait]) -> Vec<WaitModel> {
    let model = |wait: &Wait| WaitModel {
        cause: wait.cause,
        of: wait.of.clone(),
        ns: wait.ns,
    };
    waits.iter().map(model).collect()
}

/// All waits of a summary.
pub(crate) fn of_rows(rows: &[WaitRow]) -> Vec<WaitModel> {
    let model = |row: &WaitRow| WaitModel {
        cause: row.cause,
        of: row.of.as_ref().and_then(|of| of.parse().ok()),
        ns: row.ns,
    };
    rows.iter().map(model).collect()
}

/// Lists the longest waits one by one and sums the others by cause; the total stays the same.
/// Returns true as well if these are all waits.
pub(crate) fn few(waits: &[Wait]) -> (Vec<WaitModel>, bool) {
    if waits.len() <= TOLD {
        return (all(waits), true);
    }
    let mut few = all(waits);
    few.sort_by_key(|wait| std::cmp::Reverse(wait.ns));
    for wait in few.iter_mut().skip(TOLD) {
        wait.of = None;
    }
    (together(few), false)
}

/// Removes the names that the caller may not see.
pub(crate) fn seen(mut waits: Vec<WaitModel>, sees: impl Fn(&Tenant) -> bool) -> Vec<WaitModel> {
    let mut hidden = false;
    for wait in &mut waits {
        if wait.of.as_ref().is_some_and(|of| !sees(of)) {
            wait.of = None;
            hidden = true;
        }
    }
    // Merged, so that the caller does not learn the number of hidden tenants.
    if hidden { together(waits) } else { waits }
}

/// As [`seen`], for a caller.
pub(crate) fn seen_by(waits: Vec<WaitModel>, who: &Identity) -> Vec<WaitModel> {
    seen(waits, |of| who.sees(of))
}

/// Sums the waits of the same cause and tenant; the longest first.
fn together(waits: Vec<WaitModel>) -> Vec<WaitModel> {
    let mut sums = BTreeMap::<_, u64>::new();
    for wait in waits {
        let sum = sums.entry((wait.cause, wait.of)).or_default();
        *sum = sum.saturating_add(wait.ns);
    }
    let sums = sums.into_iter();
    let mut waits: Vec<_> = sums
        .map(|((cause, of), ns)| WaitModel { cause, of, ns })
        .collect();
    waits.sort_by_key(|wait| std::cmp::Reverse(wait.ns));
    waits
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{Role, identity};

    fn wait(cause: Cause, of: &str, ns: u64) -> Wait {
        Wait {
            cause,
            of: of.parse().ok(),
            ns,
        }
    }

    fn told(waits: &[WaitModel]) -> String {
        serde_json::to_string(waits).unwrap()
    }

    #[test]
    fn a_tenant_admin_learns_no_other_tenants_name_nor_how_many_there_are() {
        let waits = all(&[
            wait(Cause::Share, "train", 5),
            wait(Cause::Share, "batch", 4),
            wait(Cause::Cap, "chat", 3),
            wait(Cause::Own, "", 2),
        ]);
        let admin = identity(Role::TenantAdmin, Some("chat"));
        assert_eq!(
            told(&seen_by(waits.clone(), &admin)),
            r#"[{"cause":"share","of":null,"ns":9},{"cause":"cap","of":"chat","ns":3},{"cause":"own","of":null,"ns":2}]"#
        );
        let viewer = identity(Role::Viewer, None);
        assert_eq!(seen_by(waits.clone(), &viewer), waits);
    }

    #[test]
    fn of_many_waits_few_are_told_and_come_to_the_same() {
        let many: Vec<_> = (0..40)
            .map(|number| wait(Cause::Share, &format!("t{number}"), 100 - number))
            .chain([wait(Cause::Bus, "", 1)])
            .collect();
        let (told, whole) = few(&many);
        assert!(!whole && told.len() == TOLD + 2, "{told:?}");
        let sum = |waits: &[WaitModel]| waits.iter().map(|wait| wait.ns).sum::<u64>();
        assert_eq!(sum(&told), sum(&all(&many)));
        assert!(few(&many[..TOLD]).1);
    }
}
