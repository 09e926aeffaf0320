-- A warehouse's daily load: 40 views over six raw tables, of which twelve are answers.

-- Staging: what arrives is text.

CREATE TEMPORARY VIEW stg_orders AS
SELECT CAST(order_id AS bigint) AS order_id, CAST(customer_id AS bigint) AS customer_id,
  CAST(ordered_on AS date) AS ordered_on, LOWER(TRIM(status)) AS status, UPPER(channel) AS channel,
  CAST(version AS int) AS version
FROM raw_orders;

CREATE TEMPORARY VIEW stg_lines AS
SELECT CAST(order_id AS bigint) AS order_id, CAST(line AS int) AS line,
  CAST(product_id AS bigint) AS product_id, CAST(quantity AS int) AS quantity,
  CAST(price AS decimal(10, 2)) AS price, CAST(discount AS decimal(4, 2)) AS discount
FROM raw_lines;

CREATE TEMPORARY VIEW stg_customers AS
SELECT CAST(customer_id AS bigint) AS customer_id, TRIM(name) AS name, LOWER(email) AS email,
  UPPER(country) AS country, segment, CAST(version AS int) AS version
FROM raw_customers;

CREATE TEMPORARY VIEW stg_products AS
SELECT CAST(product_id AS bigint) AS product_id, LOWER(category) AS category, brand,
  CAST(cost AS decimal(10, 2)) AS cost
FROM raw_products;

CREATE TEMPORARY VIEW stg_payments AS
SELECT CAST(payment_id AS bigint) AS payment_id, CAST(order_id AS bigint) AS order_id,
  CAST(amount AS decimal(12, 2)) AS amount, CAST(paid_on AS date) AS paid_on, LOWER(method) AS method
FROM raw_payments;

CREATE TEMPORARY VIEW stg_visits AS
SELECT CAST(visit_id AS bigint) AS visit_id, CAST(customer_id AS bigint) AS customer_id,
  CAST(visited_on AS date) AS visited_on, page, CAST(seconds AS int) AS seconds
FROM raw_visits;

-- Cleaning: what cannot be used is left out.

CREATE TEMPORARY VIEW clean_orders AS
SELECT * FROM stg_orders WHERE customer_id IS NOT NULL AND status <> 'test';

CREATE TEMPORARY VIEW clean_lines AS
SELECT order_id, line, product_id, quantity, price, COALESCE(discount, 0.00) AS discount
FROM stg_lines WHERE quantity > 0;

CREATE TEMPORARY VIEW clean_customers AS
SELECT customer_id, name, email, COALESCE(country, '??') AS country, segment, version
FROM stg_customers WHERE email LIKE '%@%';

CREATE TEMPORARY VIEW clean_products AS
SELECT product_id, category, COALESCE(brand, 'no brand') AS brand, cost FROM stg_products;

CREATE TEMPORARY VIEW clean_payments AS
SELECT * FROM stg_payments WHERE amount > 0;

CREATE TEMPORARY VIEW clean_visits AS
SELECT * FROM stg_visits WHERE seconds BETWEEN 1 AND 7200;

-- The latest version of what arrives more than once.

CREATE TEMPORARY VIEW latest_orders AS
SELECT order_id, customer_id, ordered_on, status, channel
FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY order_id ORDER BY version DESC) AS nth
  FROM clean_orders
) WHERE nth = 1;

CREATE TEMPORARY VIEW latest_customers AS
SELECT customer_id, name, email, country, segment
FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY customer_id ORDER BY version DESC) AS nth
  FROM clean_customers
) WHERE nth = 1;

-- Joins.

CREATE TEMPORARY VIEW shipped_orders AS
SELECT * FROM latest_orders WHERE status IN ('shipped', 'returned');

CREATE TEMPORARY VIEW order_lines AS
SELECT o.order_id, o.customer_id, o.ordered_on, o.status, o.channel, l.line, l.product_id,
  l.quantity, l.quantity * l.price * (1 - l.discount) AS revenue
FROM latest_orders o JOIN clean_lines l ON o.order_id = l.order_id;

CREATE TEMPORARY VIEW sales AS
SELECT s.*, p.category, p.brand, s.revenue - s.quantity * p.cost AS margin
FROM order_lines s LEFT JOIN clean_products p ON s.product_id = p.product_id
WHERE s.status <> 'cancelled';

CREATE TEMPORARY VIEW customer_sales AS
SELECT s.*, c.country, c.segment
FROM sales s JOIN latest_customers c ON s.customer_id = c.customer_id;

CREATE TEMPORARY VIEW order_totals AS
SELECT order_id, customer_id, ordered_on, channel, COUNT(*) AS lines, SUM(revenue) AS total
FROM sales GROUP BY order_id, customer_id, ordered_on, channel;

CREATE TEMPORARY VIEW order_payments AS
SELECT order_id, SUM(amount) AS paid, MAX(paid_on) AS last_paid_on
FROM clean_payments GROUP BY order_id;

CREATE TEMPORARY VIEW order_balances AS
SELECT t.order_id, t.customer_id, t.ordered_on, t.total, COALESCE(p.paid, 0.00) AS paid,
  t.total - COALESCE(p.paid, 0.00) AS due
FROM order_totals t LEFT JOIN order_payments p ON t.order_id = p.order_id;

CREATE TEMPORARY VIEW open_orders AS
SELECT * FROM order_balances WHERE due > 0;

CREATE TEMPORARY VIEW silent_customers AS
SELECT c.customer_id, c.country, c.segment FROM latest_customers c
LEFT ANTI JOIN clean_visits v ON c.customer_id = v.customer_id;

-- Aggregates.

CREATE TEMPORARY VIEW customer_value AS
SELECT customer_id, country, segment, COUNT(DISTINCT order_id) AS orders, SUM(revenue) AS revenue,
  SUM(margin) AS margin, MAX(ordered_on) AS last_ordered_on
FROM customer_sales GROUP BY customer_id, country, segment;

CREATE TEMPORARY VIEW visits_of_customers AS
SELECT customer_id, COUNT(*) AS visits, SUM(seconds) AS seconds
FROM clean_visits GROUP BY customer_id;

CREATE TEMPORARY VIEW product_sales AS
SELECT product_id, category, brand, SUM(quantity) AS quantity, SUM(revenue) AS revenue
FROM sales GROUP BY product_id, category, brand;

CREATE TEMPORARY VIEW brand_sales AS
SELECT category, brand, SUM(revenue) AS revenue FROM product_sales GROUP BY category, brand;

CREATE TEMPORARY VIEW category_sales AS
SELECT category, SUM(revenue) AS revenue FROM brand_sales GROUP BY category;

CREATE MATERIALIZED VIEW daily_sales AS
SELECT ordered_on, channel, COUNT(*) AS orders, SUM(total) AS revenue, AVG(lines) AS lines
FROM order_totals GROUP BY ordered_on, channel;

CREATE MATERIALIZED VIEW country_months AS
SELECT country, YEAR(ordered_on) AS year, MONTH(ordered_on) AS month,
  COUNT(DISTINCT customer_id) AS customers, SUM(revenue) AS revenue, SUM(margin) AS margin
FROM customer_sales GROUP BY country, YEAR(ordered_on), MONTH(ordered_on);

CREATE MATERIALIZED VIEW segments AS
SELECT segment, COUNT(*) AS customers, AVG(revenue) AS mean_revenue,
  SUM(CASE WHEN orders > 5 THEN 1 ELSE 0 END) AS regulars
FROM customer_value GROUP BY segment;

CREATE MATERIALIZED VIEW brand_shares AS
SELECT b.category, b.brand, b.revenue, c.revenue AS category_revenue
FROM brand_sales b JOIN category_sales c ON b.category <=> c.category
WHERE b.revenue > 0.05 * c.revenue;

CREATE MATERIALIZED VIEW debts AS
SELECT c.country, COUNT(*) AS orders, SUM(o.due) AS due, MIN(o.ordered_on) AS oldest
FROM open_orders o JOIN latest_customers c ON o.customer_id = c.customer_id GROUP BY c.country;

CREATE MATERIALIZED VIEW conversion AS
SELECT v.segment, COUNT(*) AS visitors, COUNT(s.customer_id) AS buyers, SUM(v.visits) AS visits
FROM (
  SELECT c.customer_id, c.segment, n.visits
  FROM latest_customers c JOIN visits_of_customers n ON c.customer_id = n.customer_id
) v LEFT JOIN customer_value s ON v.customer_id = s.customer_id
GROUP BY v.segment;

CREATE MATERIALIZED VIEW silence AS
SELECT country, segment, COUNT(*) AS customers FROM silent_customers GROUP BY country, segment;

CREATE MATERIALIZED VIEW payment_methods AS
SELECT method, YEAR(paid_on) AS year, COUNT(*) AS payments, SUM(amount) AS amount
FROM clean_payments GROUP BY method, YEAR(paid_on);

-- The first few.

CREATE MATERIALIZED VIEW top_customers AS
SELECT country, nth, customer_id, revenue FROM (
  SELECT country, customer_id, revenue,
    ROW_NUMBER() OVER (PARTITION BY country ORDER BY revenue DESC, customer_id) AS nth
  FROM customer_value
) WHERE nth <= 10;

CREATE MATERIALIZED VIEW top_products AS
SELECT category, nth, product_id, revenue FROM (
  SELECT category, product_id, revenue,
    ROW_NUMBER() OVER (PARTITION BY category ORDER BY revenue DESC, product_id) AS nth
  FROM product_sales
) WHERE nth <= 5;

CREATE MATERIALIZED VIEW largest_debts AS
SELECT order_id, customer_id, due FROM open_orders ORDER BY due DESC, order_id LIMIT 20;

CREATE MATERIALIZED VIEW returns AS
SELECT p.category, COUNT(*) AS lines, SUM(l.quantity) AS quantity
FROM shipped_orders o JOIN clean_lines l ON o.order_id = l.order_id
JOIN clean_products p ON l.product_id = p.product_id
WHERE o.status = 'returned' GROUP BY p.category;
