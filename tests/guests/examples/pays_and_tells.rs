//! An honest adapter.

guests::guest!(guests::nothing);
