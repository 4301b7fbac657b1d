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
	// requestTimeout bounds a request of ours: a server that is frozen answers none.
	requestTimeout = 5 * time.Second

	pollInterval = 50 * time.Millisecond
)

// waitReady returns when the component answers, for those that have something to answer.
func (c *Cluster) waitReady(ctx context.Context, component Component) error {
	switch component {
	case Etcd:
		return poll(ctx, func() error { return request(ctx, c.etcdClient, "GET", c.etcdURL()+"/health", nil, nil) })
	case APIServer:
		return poll(ctx, func() error { return c.api(ctx, "GET", "/readyz", nil, nil) })
	}
	return nil
}

// waitUsable returns when Pods can be created in the default namespace and find a node.
func (c *Cluster) waitUsable(ctx context.Context) error {
	return poll(ctx, func() error {
		if err := c.api(ctx, "GET", "/api/v1/namespaces/default/serviceaccounts/default", nil, nil); err != nil {
			return err
		}
		return c.checkNodes(ctx)
	})
}

// poll calls check until it returns nil or ctx ends.
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
			return fmt.Errorf("%w (the last try: %w)", context.Cause(ctx), err)
		case <-ticker.C:
		}
	}
}

// whileRunning returns a context that ends, for the reason that why gives then, when the channel is closed.
func whileRunning(ctx context.Context, ended <-chan struct{}, why func() error) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-ended:
			cancel(why())
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

// releaseNodes lets a new kwok have the nodes at once, which otherwise waits until the leases of the old one expire.
func (c *Cluster) releaseNodes(ctx context.Context) error {
	return poll(ctx, func() error {
		return c.api(ctx, "DELETE", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", nil, nil)
	})
}

// checkNodes returns an error unless Pods can be scheduled to all nodes. A node has a taint as long as it is not Ready.
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

func (c *Cluster) api(ctx context.Context, method, path string, body, answer any) error {
	return request(ctx, c.apiClient, method, c.URL()+path, body, answer)
}

// request sends body as JSON, if not nil, and decodes the answer from JSON, if not nil. Any status but 2xx is an error.
func request(ctx context.Context, client *http.Client, method, url string, body, answer any) error {
	var content bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&content).Encode(body); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, url, &content)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %s: %s", method, url, resp.Status, text)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(text, answer)
}
