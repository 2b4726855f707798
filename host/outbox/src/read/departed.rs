//! Payments whose month has left the history: what the permanent record and the verdict still say of them.

use chrono::{DateTime, Utc};
use sqlx::{Postgres, QueryBuilder};
use uuid::Uuid;

use super::{Filter, Reader, push_ids_of_rail_key};
use crate::Error;

/// A payment whose month has left the history: what its permanent record and its verdict still say.
#[derive(Clone, Debug, sqlx::FromRow)]
pub struct Departed {
    pub outbox_id: Uuid,
    pub participant_id: String,
    pub sequence_id: i64,
    pub state: String,
    pub attempts: i32,
    pub created_at: DateTime<Utc>,
    pub ended_at: DateTime<Utc>,
    pub money_moved: String,
    pub error_code: Option<String>,
    pub rail_reference: Option<String>,
    pub resolved: Option<String>,
    pub reissued_as: Option<Uuid>,
}

/// Up to the ids that are wanted. It has the columns that a filter asks for; nobody knows the rail any more.
const DEPARTED: &str = "select * from (
  select r.outbox_id, r.participant_id, r.sequence_id, v.state, v.attempt_no as attempts,
         symphony.uuidv7_time(r.outbox_id) as created_at, v.completed_at as ended_at, v.money_moved, v.error_code,
         v.rail_reference, null::text as rail_type, null::text as rail_code, false as unsettled, false as needs_review,
         (select f.money_moved from symphony.payment_outbox_resolutions f
           where f.outbox_id = r.outbox_id order by f.finding_no desc limit 1) as resolved,
         (select i.successor_id from symphony.payment_outbox_reissues i where i.predecessor_id = r.outbox_id) as reissued_as
    from symphony.payment_outbox_records r
    join symphony.payment_outbox_verdicts v on v.outbox_id = r.outbox_id
   where not exists (select 1 from symphony.payment_outbox_attempts a where a.outbox_id = r.outbox_id)
     and r.outbox_id in (";

impl Reader {
    /// Those whose month has left the history, by outbox id, by the rail's reference, and by an instruction that is its own
    /// idempotency key: of the two only a digest is left. The newest first.
    pub async fn find_departed(&self, text: &str, filter: &Filter) -> Result<Vec<Departed>, Error> {
        let mut query = QueryBuilder::new(DEPARTED);
        query.push(
            "select k.outbox_id from symphony.payment_outbox_records k where k.key_digest = symphony.key_digest(",
        );
        query.push_bind(text).push(", ").push_bind(text);
        query.push(") union all select w.outbox_id from symphony.payment_outbox_verdicts w where w.rail_reference = ");
        query.push_bind(text);
        if let Ok(id) = Uuid::parse_str(text) {
            query.push(" union all select ").push_bind(id).push("::uuid");
        }
        self.departed(query, filter).await
    }

    /// The same by the key at the rail.
    pub async fn find_departed_by_rail_key(
        &self,
        digits: &str,
        filter: &Filter,
    ) -> Result<Vec<Departed>, Error> {
        let mut query = QueryBuilder::new(DEPARTED);
        push_ids_of_rail_key(&mut query, digits);
        self.departed(query, filter).await
    }

    async fn departed(
        &self,
        mut query: QueryBuilder<Postgres>,
        filter: &Filter,
    ) -> Result<Vec<Departed>, Error> {
        query.push(")) departed where true");
        filter.narrow(&mut query);
        query.push(" order by outbox_id desc");
        Ok(query.build_query_as().fetch_all(&self.pool).await?)
    }
}
