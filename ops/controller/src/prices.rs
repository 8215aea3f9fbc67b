//! The price list of credits.

use admin::errors::UsageError;
use admin::usage::Used;
use anyhow::{Context, Result};
use serde::Serialize;
use utoipa::ToSchema;

/// The price of each credit.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct Prices {
    /// Price of a core credit: one SM busy for a second.
    pub(crate) core_credit: f64,
    /// Price of a VRAM credit: one GiB resident for a second.
    pub(crate) vram_credit: f64,
    /// The ISO 4217 code of the currency.
    pub(crate) currency: String,
}

impl Prices {
    /// Parses `0.0001,0.00002,EUR`; `None` if the text is empty.
    pub(crate) fn read(text: &str) -> Result<Option<Self>> {
        if text.is_empty() {
            return Ok(None);
        }
        let wrong = || {
            UsageError(format!(
                "controller.prices={text:?} is not CORE,VRAM,CURRENCY, such as 0.0001,0.00002,EUR"
            ))
        };
        let parts: Vec<_> = text.split(',').map(str::trim).collect();
        let [core, vram, currency] = parts[..] else {
            return Err(wrong().into());
        };
        let price = |text: &str| {
            let price: f64 = text.parse().ok()?;
            (price.is_finite() && (0.0..1e9).contains(&price)).then_some(price)
        };
        let is_currency =
            currency.len() == 3 && currency.bytes().all(|byte| byte.is_ascii_uppercase());
        let (core, vram) = (
            price(core).with_context(wrong)?,
            price(vram).with_context(wrong)?,
        );
        match is_currency {
            true => Ok(Some(Self {
                core_credit: core,
                vram_credit: vram,
                currency: currency.into(),
            })),
            false => Err(wrong().into()),
        }
    }

    /// The list as metrics tell it.
    pub(crate) fn told(&self) -> Vec<telemetry::Price> {
        let credits = [("core", self.core_credit), ("vram", self.vram_credit)];
        let price = |(credit, price)| telemetry::Price {
            credit,
            currency: self.currency.clone(),
            price,
        };
        credits.map(price).into()
    }

    /// Cost of this usage.
    pub(crate) fn of(&self, used: &Used) -> f64 {
        used.core_credits() * self.core_credit + used.vram_credits() * self.vram_credit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_list_is_two_numbers_and_a_currency() {
        let read = Prices::read("0.5, 0.25,EUR").unwrap().unwrap();
        assert_eq!(
            (read.core_credit, read.vram_credit, &*read.currency),
            (0.5, 0.25, "EUR")
        );
        assert_eq!(Prices::read("").unwrap(), None);
        for bad in ["1", "1,2", "1,2,eur", "-1,2,EUR", "nan,2,EUR", "1,2,EUR,3"] {
            assert!(Prices::read(bad).is_err(), "{bad}");
        }
    }
}
