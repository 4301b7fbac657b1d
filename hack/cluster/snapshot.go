// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"os"
	"strconv"
)

// Snapshot copies the data of etcd, which stands still meanwhile, and returns the directory of the copy. Stop removes it.
func (c *Cluster) Snapshot() (dir string, err error) {
	if dir, err = os.MkdirTemp(c.dir, "snapshot-"); err != nil {
		return "", err
	}
	if err := c.Freeze(Etcd); err != nil {
		return "", err
	}
	err = os.CopyFS(dir, os.DirFS(c.path("etcd")))
	if resumeErr := c.Resume(Etcd); err == nil {
		err = resumeErr
	}
	return dir, err
}

// Restore replaces the data of etcd by a snapshot and restarts all components. With raiseRevision, etcd continues with a higher
// revision than before and compacts all earlier ones, as after etcdutl snapshot restore --bump-revision --mark-compacted: a watch from
// an earlier resourceVersion fails. Without it, resourceVersions are used again, and such a watch delivers nothing until they exceed it.
func (c *Cluster) Restore(ctx context.Context, snapshot string, raiseRevision bool) error {
	components := []Component{Etcd, APIServer}
	if !c.options.APIServerOnly {
		components = append(components, ControllerManager, Scheduler, Kwok)
	}
	for _, component := range components[1:] {
		if err := c.Kill(component); err != nil {
			return err
		}
	}
	last, err := c.etcdRevision(ctx)
	if err != nil {
		return err
	}
	if err := c.Kill(Etcd); err != nil {
		return err
	}
	if err := os.RemoveAll(c.path("etcd")); err != nil {
		return err
	}
	if err := os.CopyFS(c.path("etcd"), os.DirFS(snapshot)); err != nil {
		return err
	}
	for _, component := range components {
		if err := c.Restart(ctx, component); err != nil {
			return err
		}
		if component == Etcd && raiseRevision {
			if err := c.raiseEtcdRevision(ctx, last); err != nil {
				return err
			}
		}
	}
	return nil
}

// etcdHeader is in each response of etcd's JSON API. Integers of 64 bits are strings in it.
type etcdHeader struct {
	Header struct{ Revision string }
}

func (c *Cluster) etcdRevision(ctx context.Context) (int64, error) {
	var status etcdHeader
	if err := request(ctx, c.etcdClient, "POST", c.etcdURL()+"/v3/maintenance/status", struct{}{}, &status); err != nil {
		return 0, err
	}
	return strconv.ParseInt(status.Header.Revision, 10, 64)
}

// raiseEtcdRevision writes until etcd's revision is higher than last, and compacts all earlier revisions.
func (c *Cluster) raiseEtcdRevision(ctx context.Context, last int64) error {
	put := map[string][]byte{"key": []byte("revision")} // outside of the API server's prefix
	for revision := int64(0); revision <= last; {
		var response etcdHeader
		if err := request(ctx, c.etcdClient, "POST", c.etcdURL()+"/v3/kv/put", put, &response); err != nil {
			return err
		}
		var err error
		if revision, err = strconv.ParseInt(response.Header.Revision, 10, 64); err != nil {
			return err
		}
	}
	compaction := map[string]string{"revision": strconv.FormatInt(last+1, 10)}
	return request(ctx, c.etcdClient, "POST", c.etcdURL()+"/v3/kv/compaction", compaction, nil)
}
