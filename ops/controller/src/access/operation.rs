//! The operations of the interface, and the roles that may do each: the only table.

use serde::{Deserialize, Serialize};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::role::Role;

/// Scope in which a role may do an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Nowhere.
    None,
    /// Within its own tenant.
    Own,
    /// Everywhere.
    All,
}

macro_rules! operations {
    ($($name:ident = $text:literal: $viewer:ident $admin:ident $operator:ident $auditor:ident;)*) => {
        /// An operation. Each request is one of these.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        pub(crate) enum Operation {
            $(#[doc = $text] #[serde(rename = $text)] $name,)*
        }

        impl Operation {
            /// All operations.
            pub(crate) const ALL: &[Self] = &[$(Self::$name),*];

            /// Its name, as used in tokens and in answers to a login.
            pub(crate) const fn name(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }

            /// The table: scope of the operation for each role.
            pub(crate) const fn scope(self, role: Role) -> Scope {
                match self {
                    $(Self::$name => match role {
                        Role::Viewer => Scope::$viewer,
                        Role::TenantAdmin => Scope::$admin,
                        Role::Operator => Scope::$operator,
                        Role::Auditor => Scope::$auditor,
                    }),*
                }
            }
        }
    };
}

// Implemented by hand: the derive does not see what the macro builds.
impl PartialSchema for Operation {
    fn schema() -> RefOr<Schema> {
        let names = Self::ALL.iter().map(|operation| operation.name());
        let schema = ObjectBuilder::new()
            .schema_type(Type::String)
            .description(Some("An operation."))
            .enum_values(Some(names));
        schema.into()
    }
}

impl ToSchema for Operation {}

operations! {
    //                                          viewer admin operator auditor
    ClusterRead = "cluster.read":               All    All   All      All;
    ClusterHold = "cluster.hold":               None   None  All      None;
    TenantsRead = "tenants.read":               All    Own   All      All;
    TenantsWrite = "tenants.write":             None   None  All      None;
    TenantsLogin = "tenants.login":             None   Own   All      None;
    WorkersRead = "workers.read":               All    None  All      All;
    WorkersDrain = "workers.drain":             None   None  All      None;
    SessionsRead = "sessions.read":             All    Own   All      All;
    SessionsEnd = "sessions.end":               None   Own   All      None;
    ProfilesRead = "profiles.read":             All    None  All      All;
    ProfilesWrite = "profiles.write":           None   None  All      None;
    SettingsRead = "settings.read":             All    None  All      All;
    SettingsWrite = "settings.write":           None   None  All      None;
    UsageRead = "usage.read":                   All    Own   All      All;
    OrderRead = "order.read":                   All    Own   All      All;
    OrderVerify = "order.verify":               None   None  All      All;
    OrderExport = "order.export":               None   None  All      All;
    EventsRead = "events.read":                 All    Own   All      All;
    TokensRead = "tokens.read":                 None   None  All      All;
    TokensWrite = "tokens.write":               None   None  All      None;
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/api.md");
    const MARK: &str = "<!-- table of roles: made from the code by WARPLOOM_BLESS=1 cargo test -p \
                        controller -->\n";

    /// The table as the documentation page shows it.
    fn table() -> String {
        let mut text = String::from("| operation |");
        let mut line = String::from("| --- |");
        for role in Role::ALL {
            text += &format!(" {} |", role.name());
            line += " --- |";
        }
        text = format!("{text}\n{line}\n");
        for operation in Operation::ALL {
            text += &format!("| `{}` |", operation.name());
            for role in Role::ALL {
                text += match operation.scope(role) {
                    Scope::None => "  |",
                    Scope::Own => " own |",
                    Scope::All => " yes |",
                };
            }
            text.push('\n');
        }
        text
    }

    #[test]
    fn the_page_has_the_table() {
        let page = std::fs::read_to_string(PAGE).unwrap();
        let (before, has) = page.split_once(MARK).unwrap();
        if std::env::var_os("WARPLOOM_BLESS").is_some() {
            std::fs::write(PAGE, format!("{before}{MARK}\n{}", table())).unwrap();
            return;
        }
        let has = has.trim_start();
        assert!(
            has == table(),
            "docs/reference/api.md differs: WARPLOOM_BLESS=1"
        );
    }
}
