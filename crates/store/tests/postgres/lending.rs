//! A database that was lent comes back as empty as it went.

use baton_store::PepperDigest;
use baton_store::postgres::OpenError;
use baton_store::postgres::backup::Error;
use baton_store::postgres::loan::Loan;
use baton_testkit::postgres::{Cluster, Database, Disk};

use crate::cast::{birth, local, new_task, put, short_project};
use crate::site::{chance, close, done, open, options, refused, wait};

const MINE: PepperDigest = PepperDigest([1; 32]);

fn take(database: &Database) -> Result<Loan, Error> {
    wait(Loan::take(&database.url(), MINE, &mut chance(5)))
}

/// Everything that is in a database, and the roles that are named after it.
fn everything(database: &Database) -> Vec<String> {
    database.say(
        "SELECT relname::text FROM pg_class WHERE relnamespace = 'public'::regnamespace
         UNION ALL SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace
         UNION ALL SELECT rolname FROM pg_roles WHERE rolname = current_database() || '_reader'",
    )
}

#[test]
fn a_database_that_was_lent_comes_back_empty_and_one_with_anything_in_it_is_not_taken() {
    let cluster = Cluster::start(Disk::Careful);
    let database = cluster.database();
    let loan = take(&database).expect("it is empty");
    // Nobody else gets in, and whoever borrowed it works as anywhere.
    let mut other = options(1);
    other.pepper = Some(PepperDigest([2; 32]));
    assert!(matches!(refused(&database.url(), other), OpenError::WrongPepper));
    let mut own = options(2);
    own.pepper = Some(MINE);
    let store = open(&database.url(), own).expect("the borrower gets in");
    done(&store, put(&local(), short_project()));
    done(&store, birth(&local(), new_task("lent")));
    close(store);
    assert!(matches!(take(&database), Err(Error::NotEmpty)), "it is taken");
    wait(loan.give_back()).expect("it goes back");
    assert_eq!(everything(&database), Vec::<String>::new());

    let theirs = cluster.database();
    theirs.say("CREATE TABLE precious (x int)");
    assert!(matches!(take(&theirs), Err(Error::NotEmpty)));
    assert_eq!(everything(&theirs), ["precious"]);
}

#[test]
fn a_role_that_was_there_before_stays() {
    let cluster = Cluster::start(Disk::Careful);
    let database = cluster.database();
    let name = database.say("SELECT quote_ident(current_database() || '_reader')").concat();
    database.say(&format!("CREATE ROLE {name} NOLOGIN; GRANT {name} TO baton"));
    wait(take(&database).expect("it is empty").give_back()).expect("it goes back");
    assert_eq!(everything(&database), [name]);
}
