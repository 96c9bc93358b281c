//! What the administrator of a cluster says to it.

use std::time::Duration;

use tokio_postgres::{Config, NoTls, SimpleQueryMessage};

/// Longer than anything that is said here takes; a cluster that hangs is a failure with a name.
const PATIENCE: Duration = Duration::from_secs(60);

/// Says statements one after another, outside of any transaction, and gives the first column of
/// what the last one found.
pub(super) fn say(url: &str, statements: &[String]) -> Result<Vec<String>, String> {
    // A thread of its own: the caller may be on a runtime, which must not wait for another.
    std::thread::scope(|scope| {
        let saying = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.expect("a runtime needs nothing");
            runtime.block_on(async {
                let all = tokio::time::timeout(PATIENCE, say_all(url, statements));
                all.await.map_err(|_| "no answer".to_owned())?
            })
        });
        saying.join().expect("asking does not panic")
    })
}

async fn say_all(url: &str, statements: &[String]) -> Result<Vec<String>, String> {
    let told = |error: tokio_postgres::Error| {
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        format!("{error}: {}", cause.unwrap_or_default())
    };
    let config: Config = url.parse().map_err(told)?;
    let (client, connection) = config.connect(NoTls).await.map_err(told)?;
    let connection = tokio::spawn(connection);
    let mut found = vec![];
    for statement in statements {
        let messages = client.simple_query(statement).await.map_err(told)?;
        found = messages.iter().filter_map(first_column).collect();
    }
    drop(client);
    connection.await.expect("a connection does not panic").map_err(told)?;
    Ok(found)
}

pub(super) fn first_column(message: &SimpleQueryMessage) -> Option<String> {
    let SimpleQueryMessage::Row(row) = message else { return None };
    row.get(0).map(str::to_owned)
}
