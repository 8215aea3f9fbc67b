//! The end of a closed session, behind the work that the driver has of it.

use bus_schemas::Failure;

use super::Session;

impl Session {
    /// Gives up what the driver has not got, without a report. The rest goes on to its end.
    pub(crate) fn leave(&mut self) {
        self.waiting.clear();
        self.given_up.clear();
        if let Some(flight) = self.flights.pop_back_if(|flight| flight.is_part()) {
            let flight = self.whole(flight);
            self.flights.push_back(flight);
        }
    }

    /// True if all its work has ended, as far as marks show. [`Session`]'s drop waits for the rest.
    pub(crate) fn has_ended(&self) -> Result<bool, Failure> {
        let end = self.flights.back().and_then(|flight| flight.end.as_ref());
        end.map_or(Ok(true), |end| end.is_done())
    }
}
