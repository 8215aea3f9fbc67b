//! The leader's verdict, before a tenant is set, on the targets that can be met.

use anyhow::{Result, anyhow};
use bus_schemas::{Admission, Feasibility, Tenant, TenantSettings};

use crate::administrator::Administrator;
use crate::errors::{CommandError, ErrorCode, Unreachable};
use crate::output;
use crate::target::duration;

/// The targets as they would be if the tenant had these settings; `None` without a leader.
pub async fn ask(
    administrator: &Administrator,
    tenant: &Tenant,
    settings: &TenantSettings,
) -> Option<Vec<Admission>> {
    let answer = administrator
        .admission(tenant, settings, administrator.glance())
        .await;
    answer.ok()
}

/// Fails if a target that can be met now could no longer be met after the change.
///
/// # Errors
/// `E-TENANT-TARGET` with the targets that cannot be met; [`Unreachable`] if no leader answers.
pub fn refuse(before: &[Admission], after: Option<&[Admission]>) -> Result<()> {
    let Some(after) = after else {
        return Err(anyhow!(Unreachable(
            "no leader says whether the target can be met; without --strict it is set".into()
        )));
    };
    let fails = |targets: &[Admission], tenant: &Tenant| {
        let mut targets = targets.iter().filter(|target| target.tenant == *tenant);
        targets.any(|target| advice(target).is_some())
    };
    let worse = after.iter().filter(|target| {
        let same = before.iter().find(|known| known.tenant == target.tenant);
        let changed = same.is_none_or(|known| known.target_ns != target.target_ns);
        changed || !fails(before, &target.tenant)
    });
    match worse.filter_map(advice).next() {
        Some(advice) => Err(anyhow!(advice.with("; nothing was changed"))),
        None => Ok(()),
    }
}

/// Prints the verdict of the tenant, and of other tenants only the targets that cannot be met.
///
/// # Errors
/// As [`output::line`].
pub fn tell(tenant: &Tenant, targets: &[Admission]) -> Result<()> {
    for target in targets {
        match advice(target) {
            Some(advice) => output::note(advice),
            None if target.tenant == *tenant => output::line(good_news(target))?,
            None => {}
        }
    }
    Ok(())
}

/// The reason that a target cannot be met, with advice; `None` if it can be met.
fn advice(target: &Admission) -> Option<CommandError> {
    let gpu = target.gpu.unwrap_or(0);
    let request = duration(target.request_ns);
    let why = match target.verdict {
        Feasibility::Met | Feasibility::Unknown => return None,
        Feasibility::TooLong => format!(
            "a request alone is estimated at {request} on GPU {gpu}; choose a target well above \
             that, or sync more often"
        ),
        Feasibility::Crowded => format!(
            "on GPU {gpu} a request is estimated at {request}, those that go before it at {}, and \
             {} of lower priorities may be ahead; raise the target or the tenant's priority, or add \
             a worker",
            duration(target.before_ns),
            duration(target.ahead_ns)
        ),
        Feasibility::Overloaded => format!(
            "on GPU {gpu} it and those that go before it used {:.1} % of the last minute, and more \
             than 90 % leaves no room; add a worker, or cap tenants of higher priorities",
            f64::from(target.load_permille) / 10.0
        ),
    };
    Some(ErrorCode::TenantTarget.failed(format!(
        "the target of tenant {}, {}, cannot be met: {why}",
        target.tenant,
        duration(target.target_ns)
    )))
}

fn good_news(target: &Admission) -> String {
    let wanted = duration(target.target_ns);
    let Some(gpu) = target.gpu.filter(|_| target.verdict == Feasibility::Met) else {
        return format!(
            "target {wanted}: not known yet whether it can be met, for no request of the tenant was \
             seen by this leader"
        );
    };
    format!(
        "target {wanted}: can be met; on GPU {gpu} a request is estimated at {}, those that go before \
         it at {}, lower priorities ahead at {}, load {:.1} %",
        duration(target.request_ns),
        duration(target.before_ns),
        duration(target.ahead_ns),
        f64::from(target.load_permille) / 10.0
    )
}

/// The targets as JSON.
#[must_use]
pub fn as_json(targets: &[Admission]) -> serde_json::Value {
    let one = |target: &Admission| {
        serde_json::json!({
            "tenant": target.tenant.as_str(),
            "target_ns": target.target_ns,
            "verdict": match target.verdict {
                Feasibility::Met => "met",
                Feasibility::Unknown => "unknown",
                Feasibility::TooLong => "too-long",
                Feasibility::Crowded => "crowded",
                Feasibility::Overloaded => "overloaded",
            },
            "gpu": target.gpu,
            "request_ns": target.request_ns,
            "before_ns": target.before_ns,
            "ahead_ns": target.ahead_ns,
            "load": f64::from(target.load_permille) / 1_000.0,
            "advice": advice(target).map(|it| it.to_string()),
        })
    };
    targets.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(tenant: &str, target_ns: u64, verdict: Feasibility) -> Admission {
        Admission {
            tenant: tenant.parse().unwrap(),
            target_ns,
            verdict,
            gpu: Some(0),
            request_ns: 12_000_000,
            before_ns: 5_000_000,
            ahead_ns: 4_000_000,
            load_permille: 310,
        }
    }

    #[test]
    fn only_what_a_change_makes_impossible_refuses_it() {
        let good = [target("chat", 50, Feasibility::Met)];
        let bad = [target("chat", 20, Feasibility::Crowded)];
        assert!(refuse(&[], Some(&good)).is_ok());
        let refused = refuse(&good, Some(&bad)).unwrap_err().to_string();
        assert!(refused.starts_with("E-TENANT-TARGET"), "{refused}");
        assert!(refuse(&bad, Some(&bad)).is_ok(), "it was so before");
        let tighter = [target("chat", 10, Feasibility::Crowded)];
        assert!(refuse(&bad, Some(&tighter)).is_err());
        let unknown = [target("chat", 10, Feasibility::Unknown)];
        assert!(refuse(&[], Some(&unknown)).is_ok());
        let unreachable = refuse(&[], None).unwrap_err();
        assert!(unreachable.is::<Unreachable>(), "{unreachable}");
    }

    #[test]
    fn figures_are_told_with_what_to_do() {
        let told = advice(&target("chat", 20_000_000, Feasibility::Crowded));
        let told = told.unwrap().to_string();
        for part in [
            "20 ms",
            "12 ms",
            "5 ms",
            "4 ms",
            "GPU 0",
            "raise the target",
        ] {
            assert!(told.contains(part), "{part}: {told}");
        }
        assert!(advice(&target("chat", 1, Feasibility::Met)).is_none());
    }
}
