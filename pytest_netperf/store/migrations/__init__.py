"""Alembic's folder: every version that the tables of a store ever had."""
