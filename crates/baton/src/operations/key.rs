//! Keys: who may call, and for what.

use std::collections::BTreeSet;

use baton_domain::ids::{KeyName, PrincipalId};
use baton_domain::key::{KeyId, Kind};
use baton_domain::limits::SCOPES_MAX;
use baton_domain::scope::Scope;
use baton_domain::text::Reason;
use baton_store::KeyRow;

use crate::call::Call;
use crate::identity::{KeyWish, Made};
use crate::operation::{Answered, Audience, Declaration, Hints, Level, Method, Operation, Permit};
use crate::problem::Problem;
use crate::shape::{PageSize, ScopeWord, Span, When, record};

record! {
    /// A key to be.
    pub struct Create {
        /// What people call it; no two live keys have the same.
        name: KeyName,
        /// Who will call with it; without it, the caller.
        principal: Option<PrincipalId>,
        /// What sort of caller that is; without it an agent, or for the caller's own key what the caller is.
        kind: Option<Kind>,
        /// What it allows: scopes such as run:work, or read, agent, worker or all. Never more than the caller may.
        #[at_most(SCOPES_MAX)]
        scopes: BTreeSet<ScopeWord>,
        /// How long it lives; otherwise 90 days, and never longer than the key it is made with.
        lifetime: Option<Span>,
    }

    /// Which keys.
    pub struct List {
        /// After this one.
        after: Option<KeyId>,
        /// At most so many.
        limit: Option<PageSize>,
    }

    /// Part of a list of keys.
    pub struct Keys {
        /// In the order of their ids.
        items: Vec<KeyView>,
        /// Name it as `after` to go on; absent at the end.
        next: Option<KeyId>,
    }

    /// A key to get a new secret.
    pub struct Rotate {
        /// Which key.
        key: KeyId,
        /// How long the old secret opens it yet; otherwise a day.
        overlap: Option<Span>,
    }

    /// A key to open nothing any more.
    pub struct Revoke {
        /// Which key; those that were made with it go with it.
        key: KeyId,
        /// Why.
        reason: Reason,
    }

    /// The key that is shown, to open nothing any more.
    pub struct RevokeSelf {
        /// Why.
        reason: Reason,
    }

    /// A key that was revoked.
    pub struct RevokedView {
        /// Which key.
        id: KeyId,
    }

    /// Everything about a key but its secret.
    pub struct KeyView {
        /// Its public part.
        id: KeyId,
        /// What people call it.
        name: KeyName,
        /// Who calls with it.
        principal: PrincipalId,
        /// What sort of caller that is.
        kind: Kind,
        /// What it allows.
        #[at_most(SCOPES_MAX)]
        scopes: Vec<Scope>,
        /// The key that it was made with; none if the operator made it.
        parent: Option<KeyId>,
        /// When it was made.
        created_at: When,
        /// When it ends.
        expires_at: When,
        /// When it was last used, to the minute.
        used_at: Option<When>,
        /// When it was revoked.
        revoked_at: Option<When>,
        /// Why it was revoked.
        revoked_reason: Option<Reason>,
        /// What to do if the secret is missing: a repeated request is not told it again.
        hint: Option<String>,
    }
}

impl Operation for Create {
    const ABOUT: Declaration = Declaration {
        noun: "key",
        verb: "create",
        summary: "Make a key; its secret is shown this once",
        method: Method::Post,
        path: "/v1/keys",
        permit: Permit::Scope(Level::Admin),
        audience: Audience::Person,
        hints: Hints::ADDS,
        columns: &["id", "name", "principal", "expires_at", "hint"],
    };

    type Answer = KeyView;

    async fn perform(self, call: &Call) -> Result<Answered<KeyView>, Problem> {
        let caller = call.caller();
        let principal = self.principal.unwrap_or_else(|| caller.principal.clone());
        // Nobody is of two kinds: a caller that makes a key for itself stays what it is.
        let usual = if principal == caller.principal { caller.kind } else { Kind::Agent };
        let wish = KeyWish {
            name: self.name,
            principal,
            kind: self.kind.unwrap_or(usual),
            scopes: self.scopes.into_iter().map(String::from).collect(),
            lifetime: self.lifetime.map(|lifetime| lifetime.0),
        };
        let made = call.identity().create(caller, call.how(), wish).await?;
        Ok(answered(made))
    }
}

impl Operation for List {
    const ABOUT: Declaration = Declaration::look(
        ("key", "list"),
        "/v1/keys",
        &["id", "name", "principal", "expires_at", "used_at", "revoked_at"],
        "List keys",
    );

    type Answer = Keys;

    async fn perform(self, call: &Call) -> Result<Answered<Keys>, Problem> {
        let count_max = PageSize::or_usual(self.limit);
        let page = call.identity().list(call.caller(), self.after, count_max).await?;
        let items: Vec<_> = page.rows.iter().map(KeyView::of).collect();
        let next = items.last().filter(|_| page.more).map(|last| last.id.clone());
        Ok(Answered::read(Keys { items, next }, call.cursor(page.as_of)))
    }
}

impl Operation for Rotate {
    const ABOUT: Declaration = Declaration {
        noun: "key",
        verb: "rotate",
        summary: "Exchange the secret of a key; the new one is shown this once",
        method: Method::Post,
        path: "/v1/keys/{key}/rotate",
        permit: Permit::Scope(Level::Admin),
        audience: Audience::Person,
        hints: Hints { destructive: true, ..Hints::ADDS },
        columns: &["id", "name", "expires_at", "hint"],
    };

    type Answer = KeyView;

    async fn perform(self, call: &Call) -> Result<Answered<KeyView>, Problem> {
        let overlap = self.overlap.map(|overlap| overlap.0);
        let made = call.identity().rotate(call.caller(), call.how(), &self.key, overlap).await?;
        Ok(answered(made))
    }
}

impl Operation for Revoke {
    const ABOUT: Declaration = Declaration {
        noun: "key",
        verb: "revoke",
        summary: "Revoke a key and all that were made with it",
        method: Method::Post,
        path: "/v1/keys/{key}/revoke",
        permit: Permit::Scope(Level::Admin),
        audience: Audience::Person,
        hints: Hints::ENDS,
        columns: &["id"],
    };

    type Answer = RevokedView;

    async fn perform(self, call: &Call) -> Result<Answered<RevokedView>, Problem> {
        let identity = call.identity();
        let revoked = identity.revoke(call.caller(), call.how(), &self.key, self.reason).await?;
        Ok(call.done(RevokedView { id: self.key }, &revoked))
    }
}

impl Operation for RevokeSelf {
    const ABOUT: Declaration = Declaration {
        noun: "key",
        verb: "revoke-self",
        summary: "Revoke the key that you show, whatever it allows, and all that were made with it",
        method: Method::Post,
        path: "/v1/keys/self/revoke",
        permit: Permit::Own,
        audience: Audience::Anyone,
        hints: Hints::ENDS,
        columns: &["id"],
    };

    type Answer = RevokedView;

    async fn perform(self, call: &Call) -> Result<Answered<RevokedView>, Problem> {
        let Some(key) = call.caller().key.clone() else {
            let detail = "the caller has shown no key";
            return Err(Problem::new("malformed", detail).next("baton key revoke"));
        };
        let identity = call.identity();
        let revoked = identity.revoke(call.caller(), call.how(), &key, self.reason).await?;
        Ok(call.done(RevokedView { id: key }, &revoked))
    }
}

/// A key with its secret, which a repeated request is not told again.
pub(super) fn answered(made: Made) -> Answered<KeyView> {
    let mut value = KeyView::of(&made.row);
    let replayed = made.token.is_none();
    value.hint = replayed.then(|| {
        let id = &value.id;
        format!("its secret was shown once and cannot be shown again: baton key rotate {id}")
    });
    let secrets = made.token.iter().map(|token| ("key", token.reveal().to_owned())).collect();
    Answered { value, as_of: None, at: None, replayed, secrets }
}

impl KeyView {
    fn of(row: &KeyRow) -> Self {
        let key = &row.key;
        Self {
            id: key.id.clone(),
            name: key.name.clone(),
            principal: key.principal.clone(),
            kind: key.kind,
            scopes: key.scopes.iter().cloned().collect(),
            parent: key.parent.clone(),
            created_at: When(key.created_at),
            expires_at: When(key.expires_at),
            used_at: row.used_at.map(When),
            revoked_at: key.revoked.as_ref().map(|revoked| When(revoked.at)),
            revoked_reason: key.revoked.as_ref().map(|revoked| revoked.reason.clone()),
            hint: None,
        }
    }
}
