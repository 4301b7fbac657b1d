// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

const (
	// requestTimeout bounds a request to a component, which may be frozen.
	requestTimeout = 5 * time.Second

	pollInterval = 50 * time.Millisecond
)

// waitReady waits until etcd or kube-apiserver is ready. It does not wait for other components.
func (c *Cluster) waitReady(ctx context.Context, component Component) error {
	switch component {
	case Etcd:
		return poll(ctx, func() error { return request(ctx, c.etcdClient, "GET", c.etcdURL()+"/health", nil, nil) })
	case APIServer:
		return poll(ctx, func() error { return c.api(ctx, "GET", "/readyz", nil, nil) })
	}
	return nil
}

// waitUsable waits until Pods can be created in the default namespace and scheduled.
func (c *Cluster) waitUsable(ctx context.Context) error {
	return poll(ctx, func() error {
		if err := c.api(ctx, "GET", "/api/v1/namespaces/default/serviceaccounts/default", nil, nil); err != nil {
			return err
		}
		return c.checkNodes(ctx)
	})
}

// poll calls check until it returns nil or ctx is done.
func poll(ctx context.Context, check func() error) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (last error: %w)", context.Cause(ctx), err)
		case <-ticker.C:
		}
	}
}

// withDone returns a context that is canceled, with the cause that is returned by cause, when done is closed.
func withDone(ctx context.Context, done <-chan struct{}, cause func() error) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-done:
			cancel(cause())
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

func (c *Cluster) createNodes(ctx context.Context) error {
	for i := range c.options.Nodes {
		name := fmt.Sprintf("node-%d", i)
		node := map[string]any{
			"apiVersion": "v1",
			"kind":       "Node",
			"metadata": map[string]any{
				"name":   name,
				"labels": map[string]string{"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"},
			},
		}
		if err := c.api(ctx, "POST", "/api/v1/nodes", node, nil); err != nil {
			return fmt.Errorf("cannot create %s: %w", name, err)
		}
	}
	return nil
}

// releaseNodes deletes the node leases, so that a restarted kwok does not wait until those of its predecessor expire.
func (c *Cluster) releaseNodes(ctx context.Context) error {
	return poll(ctx, func() error {
		return c.api(ctx, "DELETE", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", nil, nil)
	})
}

// checkNodes returns an error unless Pods can be scheduled to all nodes: nodes that are not Ready are tainted.
func (c *Cluster) checkNodes(ctx context.Context) error {
	var nodes struct {
		Items []struct {
			Metadata struct{ Name string }
			Spec     struct{ Taints []struct{ Key string } }
		}
	}
	if err := c.api(ctx, "GET", "/api/v1/nodes", nil, &nodes); err != nil {
		return err
	}
	for _, node := range nodes.Items {
		if len(node.Spec.Taints) > 0 {
			return fmt.Errorf("%s has the taint %s", node.Metadata.Name, node.Spec.Taints[0].Key)
		}
	}
	return nil
}

func (c *Cluster) api(ctx context.Context, method, path string, body, result any) error {
	return request(ctx, c.apiClient, method, c.URL()+path, body, result)
}

// request sends body and decodes the response into result, both as JSON unless nil. A status other than 2xx is an error.
func request(ctx context.Context, client *http.Client, method, url string, body, result any) error {
	var buffer bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&buffer).Encode(body); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, url, &buffer)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %s: %s", method, url, resp.Status, content)
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(content, result)
}
