-- The learned metric in PostgreSQL with pgvector: store transformed rows, ask by Euclidean distance (<->).
-- Ten components here; write transform(X) into `z` with your driver.
CREATE EXTENSION IF NOT EXISTS vector;
CREATE TABLE items (id bigserial PRIMARY KEY, payload text, z vector(10));
CREATE INDEX ON items USING hnsw (z vector_l2_ops);
SELECT id, payload, z <-> '[0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]' AS distance
FROM items ORDER BY distance LIMIT 6;
