//! Never comes back from `read`.

use rail_sdk::{Facts, Reply};

fn read(_: &Reply) -> Result<Facts, String> {
    loop {
        std::hint::black_box(());
    }
}

guests::guest!(guests::nothing, read);
