//! The state in the cluster's store, which administrators change; it is kept for the next takeover.

use bus_schemas::{Tenant, TenantSettings};

use super::{Action, Leader, StateSnapshot};
use crate::input::Input;
use crate::time::Nanos;

impl Leader {
    /// Takes in the state read from the store. Changes become inputs if we lead.
    pub(super) fn set_state(
        &mut self,
        now: Nanos,
        state: &StateSnapshot,
        actions: &mut Vec<Action>,
    ) {
        self.election.saw(state.placement.epoch);
        let before = self.state.replace(state.clone());
        if self.term.is_none() {
            return;
        }
        // The leader itself owns profile and placement; the rest may have changed. But the last
        // write of the previous leader is news too: we may have led before we read it.
        let before = before.unwrap_or_default();
        self.term_with(now, actions, |term, cx| {
            term.placement_read(&before.placement, &state.placement, cx);
            None
        });
        if let Some(profile) = &state.pinned
            && before.pinned != state.pinned
        {
            self.term_with(now, actions, |term, cx| {
                term.adopt(profile, cx);
                None
            });
        }
        if before.settings_in_force() != state.settings_in_force() {
            self.change(now, Input::Settings(state.settings.clone()), actions);
        }
        for (tenant, settings) in &state.tenants {
            let known = before.tenants.iter().find(|(name, _)| name == tenant);
            if known.is_none_or(|(_, known)| known != settings) {
                let (tenant, settings) = (tenant.clone(), Some(settings.clone()));
                self.change(now, Input::TenantSet { tenant, settings }, actions);
            }
        }
        for (tenant, _) in before.tenants {
            if !state.tenants.iter().any(|(name, _)| *name == tenant) {
                let settings = None;
                self.change(now, Input::TenantSet { tenant, settings }, actions);
            }
        }
    }

    /// Takes in an administrator's change. It is kept for the next takeover, and becomes an input
    /// if we lead.
    pub(super) fn change(&mut self, now: Nanos, mut input: Input, actions: &mut Vec<Action>) {
        if let Some(state) = &mut self.state {
            match &mut input {
                Input::Settings(settings) => {
                    state.settings = settings.clone();
                    *settings = state.settings_in_force();
                }
                Input::TenantSet { tenant, settings } => keep(state, tenant, settings.as_ref()),
                _ => {}
            }
        }
        self.term_with(now, actions, |term, cx| {
            match &input {
                Input::Settings(settings) => {
                    term.learning = settings.learn;
                    term.limit(settings);
                }
                Input::TenantSet { tenant, settings } => {
                    term.tenant_set(tenant, settings.as_ref(), cx.now);
                    term.quota_set(tenant, settings.as_ref());
                }
                _ => {}
            }
            term.apply(input, cx);
            None
        });
    }
}

/// Stores a tenant's settings, or removes them.
fn keep(state: &mut StateSnapshot, tenant: &Tenant, settings: Option<&TenantSettings>) {
    state.tenants.retain(|(name, _)| name != tenant);
    if let Some(settings) = settings {
        state.tenants.push((tenant.clone(), settings.clone()));
        state.tenants.sort_by(|one, other| one.0.cmp(&other.0));
    }
}
