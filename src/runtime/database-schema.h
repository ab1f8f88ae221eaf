/* What tables there are. */
#ifndef TN_RUNTIME_DATABASE_SCHEMA_H
#define TN_RUNTIME_DATABASE_SCHEMA_H

/* A change of the schema is a new entry at the end; the file counts those applied.  Ends with NULL.
 */
extern const char *const tn_db_migrations[];

#endif
