//! Puts of many durable objects: their seals are asked for together, so that the log takes them
//! with one sync.

use plasmon_proto::ObjectId;

use crate::created::{begin_seal, end_seal};
use crate::error::Result;
use crate::options::PutOptions;
use crate::payload::{Payload, Plan};
use crate::process::Process;
use crate::put::PUTTING;
use crate::session::Session;

/// Seals that are on their way at once, with the memory of their objects.
const SEALS_AT_ONCE: usize = 64;

impl Process {
    /// Puts objects of which none is acknowledged before the log has it. After the first error no
    /// more are begun.
    pub(crate) fn put_many_durable(
        &self,
        session: &Session,
        objects: &[(Option<ObjectId>, &[u8])],
        options: &PutOptions,
    ) -> Result<Vec<ObjectId>> {
        let mut ids = Vec::with_capacity(objects.len());
        for piece in objects.chunks(SEALS_AT_ONCE) {
            let (mut begun, mut outcome) = (Vec::with_capacity(piece.len()), Ok(()));
            for (chosen, data) in piece {
                match self.begin_durable(session, *chosen, data, options) {
                    Ok(one) => begun.push(one),
                    Err(error) => {
                        outcome = Err(error);
                        break;
                    }
                }
            }
            // Every answer is taken, also after an error.
            for (made, number) in begun {
                let sealed = end_seal(&self.connection, session, PUTTING, made, number);
                outcome = outcome.and(sealed);
                ids.push(made.1);
            }
            outcome?;
        }
        Ok(ids)
    }

    fn begin_durable(
        &self,
        session: &Session,
        chosen: Option<ObjectId>,
        data: &[u8],
        options: &PutOptions,
    ) -> Result<((ObjectId, ObjectId), u64)> {
        let plan = Plan::new(PUTTING, data.len() as u64, options)?;
        let parts = [data];
        let payload =
            Payload { data: &parts, metadata: &options.metadata, attributes: &plan.attributes };
        let (id, target) = self.write_created(session, chosen, &plan, payload, options.strict)?;
        let number = begin_seal(&self.connection, session, PUTTING, id, target)?;
        Ok(((id, target), number))
    }
}
