//! The rail files of `config/rails` that point at simulators, with what they refer to.

/// A rail file of `config/rails`, which points at its simulator.
pub fn rail_file(name: &str) -> Option<&'static str> {
    RAIL_FILES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// What those files refer to, by path: secrets of simulators, worth nothing elsewhere.
pub const SIMULATED: [(&str, &str); 10] = [
    ("simulated/airtel.pub.pem", include_str!("../../../config/rails/simulated/airtel.pub.pem")),
    ("simulated/airtel_2048.pub.pem", include_str!("../../../config/rails/simulated/airtel_2048.pub.pem")),
    ("simulated/airtel_client_id", include_str!("../../../config/rails/simulated/airtel_client_id")),
    ("simulated/airtel_client_secret", include_str!("../../../config/rails/simulated/airtel_client_secret")),
    ("simulated/airtel_pin", include_str!("../../../config/rails/simulated/airtel_pin")),
    ("simulated/bank_api_key", include_str!("../../../config/rails/simulated/bank_api_key")),
    ("simulated/callback_key", include_str!("../../../config/rails/simulated/callback_key")),
    ("simulated/mtn_api_key", include_str!("../../../config/rails/simulated/mtn_api_key")),
    ("simulated/mtn_api_user", include_str!("../../../config/rails/simulated/mtn_api_user")),
    ("simulated/mtn_subscription_key", include_str!("../../../config/rails/simulated/mtn_subscription_key")),
];

const RAIL_FILES: [(&str, &str); 4] = [
    ("airtel", include_str!("../../../config/rails/airtel.toml")),
    ("bank", include_str!("../../../config/rails/bank.toml")),
    ("mock", include_str!("../../../config/rails/mock.toml")),
    ("mtn", include_str!("../../../config/rails/mtn.toml")),
];
